// Package fieldmanager is an oracle of server-side apply: what the real libraries, structured-merge-diff and the field manager
// of apimachinery, make of random objects and random writers.
//
//	controlplane fieldmanager --seed N --cases M
//
// It writes a case a line, each a JSON object. A case has the schema of a custom resource or names a built-in kind, and a
// sequence of writes; each write has what came of it:
//
//	{"schema":SCHEMA or null,"apiVersion":V,"kind":K,"served":[V,…],"empty":OBJECT,"writes":[WRITE,…]}
//	WRITE: {"verb":"update"|"apply","object":OBJECT,"sent":MANAGED_FIELDS,"manager":M,"subresource":S,"apiVersion":V,
//	        "force":B,"ignored":FIELDS_V1,"now":TIME,
//	        "result":OBJECT,"managers":MANAGED_FIELDS}   or, with "result", {"code":N,"error":TEXT,"fields":[PATH,…]}
//
// The object of an update is the whole new object, that of an apply the configuration. `sent` is absent if no managed fields
// are sent. Each write starts from what the one before it left; one that failed leaves all as it was. `error` is absent
// where the library's own text changes from run to run.
//
// The vectors of the development server are made with
//
//	controlplane fieldmanager --seed 36 --cases 60 > host/devserver/src/apply/tests/vectors.jsonl
package fieldmanager

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"

	"k8s.io/klog/v2"
)

type testCase struct {
	Schema     json.RawMessage `json:"schema"`
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Served     []string        `json:"served"`
	Empty      any             `json:"empty"`
	Writes     []write         `json:"writes"`
}

type write struct {
	Verb        string   `json:"verb"`
	Object      any      `json:"object"`
	Sent        any      `json:"sent,omitempty"`
	Manager     string   `json:"manager"`
	Subresource string   `json:"subresource,omitempty"`
	APIVersion  string   `json:"apiVersion"`
	Force       bool     `json:"force,omitempty"`
	Ignored     any      `json:"ignored,omitempty"`
	Now         string   `json:"now"`
	Result      any      `json:"result,omitempty"`
	Managers    any      `json:"managers,omitempty"`
	Code        int      `json:"code,omitempty"`
	Error       string   `json:"error,omitempty"`
	Fields      []string `json:"fields,omitempty"`
}

// Run writes the cases that the arguments ask for to standard output.
func Run(args []string) error {
	flags := flag.NewFlagSet("controlplane fieldmanager", flag.ContinueOnError)
	seed := flags.Uint64("seed", 1, "seed of the random numbers")
	cases := flags.Int("cases", 100, "how many cases to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("takes no other arguments, got %q", flags.Args())
	}
	// The field manager logs each object that does not fit its type, and some here are made so.
	klog.SetLogger(klog.Logger{})
	builtin, err := builtinKinds()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	for i := range *cases {
		g := &generator{Rand: rand.New(rand.NewPCG(*seed, uint64(i)))}
		made, err := g.testCase(builtin, i)
		if err != nil {
			return fmt.Errorf("case %d of seed %d: %w", i, *seed, err)
		}
		line, err := json.Marshal(made)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return out.Flush()
}
