// The peers written in Go of the benchmarks, and the server that all clients of the benchmarks read from.
//
//	peers serve        a replay server; commands come by standard input
//	peers client       client-go's informer, or a raw reader of the same stream
//	peers controllers  controllers of controller-runtime on one manager
//	peers decode       client-go's lists and watches, without a cache
//	peers events       tools/record of client-go within one process
//	peers flood        two users of one rate limiter of client-go, one of which asks for all it gets
//	peers micro        parts of client-go within one process
//	peers dump         pods or events as lines of JSON
//	peers workqueue    work queues of client-go and controller-runtime within one process
//
// The benches of host/cache, host/client, host/events and host/workqueue start them.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"pilothouse/peers/pods"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("a command is needed: serve, client, controllers, decode, events, flood, micro, dump or workqueue")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	switch args[0] {
	case "serve":
		return serve(flags, args[1:])
	case "client":
		return client(flags, args[1:])
	case "controllers":
		return controllers(flags, args[1:])
	case "decode":
		return decode(flags, args[1:])
	case "events":
		return recordEvents(flags, args[1:])
	case "flood":
		return flood(flags, args[1:])
	case "micro":
		return micro(flags, args[1:])
	case "dump":
		return dump(flags, args[1:])
	case "workqueue":
		return workqueues(flags, args[1:])
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// say writes a line of JSON.
func say(value any) error { return json.NewEncoder(os.Stdout).Encode(value) }

// setFlags are the pods that a command is about.
func setFlags(flags *flag.FlagSet) (count *int, seed *uint64) {
	return flags.Int("objects", 10_000, "pods"), flags.Uint64("seed", 1, "what the pods are made from")
}

// dump writes the pods of a set one on a line, or events that change each of them in turn.
func dump(flags *flag.FlagSet, args []string) error {
	count, seed := setFlags(flags)
	events := flags.Int("events", 0, "write so many events instead of the pods")
	if err := flags.Parse(args); err != nil {
		return err
	}
	set, err := pods.NewSet(*seed, *count)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	writer, line := set.NewWriter(), []byte(nil)
	for i := range *count {
		if *events > 0 {
			break
		}
		line = append(writer.AppendJSONItem(line[:0], i, pods.FirstVersion+1+uint64(i)), '\n')
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	for n := range *events {
		line = writer.AppendJSONEvent(line[:0], "MODIFIED", n%*count, pods.FirstVersion+uint64(*count+n+2), 0)
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return out.Flush()
}
