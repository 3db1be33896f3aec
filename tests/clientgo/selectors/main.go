// Command selectors says what apimachinery makes of selectors, for comparison with ours. Each line of standard input is a question in JSON:
//
//	{"kind": "label", "text": "a in (b)", "set": {"a": "b"}}     (or "field")
//
// and each line of standard output its answer: whether the text is a selector, whether it matches the set.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

type question struct {
	Kind string            `json:"kind"`
	Text string            `json:"text"`
	Set  map[string]string `json:"set"`
}

type answer struct {
	Valid   bool `json:"valid"`
	Matches bool `json:"matches"`
}

func main() {
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	out := bufio.NewWriter(os.Stdout)
	for in.More() {
		var asked question
		if err := in.Decode(&asked); err != nil {
			log.Fatal(err)
		}
		if err := json.NewEncoder(out).Encode(judge(asked)); err != nil {
			log.Fatal(err)
		}
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

func judge(asked question) answer {
	if asked.Kind == "field" {
		selector, err := fields.ParseSelector(asked.Text)
		return answer{Valid: err == nil, Matches: err == nil && selector.Matches(fields.Set(asked.Set))}
	}
	selector, err := labels.Parse(asked.Text)
	return answer{Valid: err == nil, Matches: err == nil && selector.Matches(labels.Set(asked.Set))}
}
