package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"pilothouse/peers/pods"
	"pilothouse/peers/replay"
)

// serve runs a replay server until standard input ends. Each command is answered by one line of JSON:
//
//	emit RATE COUNT   change pods, so many a second; answers when all were sent
//	expire PERCENT    change a share of the pods unseen and end all watches with 410
//	stats             what was asked for so far
func serve(flags *flag.FlagSet, args []string) error {
	count, seed := setFlags(flags)
	kubeconfig := flags.String("kubeconfig", "", "file to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	set, err := pods.NewSet(*seed, *count)
	if err != nil {
		return err
	}
	server := replay.New(set)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config, err := server.Start(ctx)
	if err != nil {
		return err
	}
	if err := os.WriteFile(*kubeconfig, []byte(config), 0o600); err != nil {
		return err
	}
	if err := say(map[string]any{"objects": *count}); err != nil {
		return err
	}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		var answer any
		var rate float64
		var number int
		switch line := commands.Text(); {
		case line == "stats":
			answer = server.Snapshot()
		case scan(line, "emit %g %d", &rate, &number):
			server.Emit(rate, number)
			answer = map[string]int{"sent": number}
		case scan(line, "expire %d", &number):
			answer = map[string]int{"ended": server.Expire(number)}
		default:
			return fmt.Errorf("unknown command %q", line)
		}
		if err := say(answer); err != nil {
			return err
		}
	}
	return commands.Err()
}

func scan(line, format string, into ...any) bool {
	read, err := fmt.Sscanf(strings.TrimSpace(line), format, into...)
	return err == nil && read == len(into)
}
