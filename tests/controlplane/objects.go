package main

// `controlplane objects`: what a server makes of objects of built-in kinds as it reads them, before its registries see them.
// An object is decoded strictly about types, given its defaults, converted to the form in which the server works and back.
// Each line of output is {"sent":OBJECT,"read":OBJECT} or {"sent":OBJECT,"error":TEXT}, TEXT being the message of the 400.
//
// With --random the objects are made here: plausible ones, in which now and then a value is of another type, null or
// empty. The same seed makes the same objects. Without it they are read from standard input, one a line; each must have
// an apiVersion and a kind.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	gvk "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

func objects(args []string) error {
	flags := flag.NewFlagSet("controlplane objects", flag.ContinueOnError)
	dir := flags.String("tables", "", "folder with resources.json, for --random")
	count := flags.Int("random", 0, "how many objects to make")
	seed := flags.Uint64("seed", 1, "seed of the random numbers")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("takes no other arguments, got %q", flags.Args())
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	if *count == 0 {
		return answerObjects(os.Stdin, out)
	}
	kinds, err := protobufKinds(filepath.Join(*dir, "resources.json"))
	if err != nil {
		return err
	}
	random := plausible{Rand: rand.New(rand.NewPCG(*seed, 36)), enums: knownEnums()}
	for i := range *count {
		kind := kinds[i%len(kinds)]
		sent, err := random.object(kind)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.key(), err)
		}
		if err := answerObject(sent, out); err != nil {
			return fmt.Errorf("%s: %s: %w", kind.key(), sent, err)
		}
	}
	return nil
}

// answerObjects answers each line.
func answerObjects(in io.Reader, out *bufio.Writer) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if sent := bytes.TrimSpace(line); len(sent) > 0 {
			if err := answerObject(sent, out); err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func answerObject(sent []byte, out io.Writer) error {
	answer := struct {
		Sent  json.RawMessage `json:"sent"`
		Read  json.RawMessage `json:"read,omitempty"`
		Error string          `json:"error,omitempty"`
	}{Sent: sent}
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(sent, &head); err != nil {
		return err
	}
	version, err := gvk.ParseGroupVersion(head.APIVersion)
	if err != nil {
		return err
	}
	kind := version.WithKind(head.Kind)
	if answer.Read, err = readAndWrite(kind, sent); err != nil {
		answer.Error = fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", kind.Kind, kind.Version, kind.Kind, err)
	}
	line, err := compact(answer)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, line)
	return err
}

// readAndWrite is an object as a server has it after decoding, in the version it was sent in.
func readAndWrite(kind gvk.GroupVersionKind, sent []byte) ([]byte, error) {
	scheme, codecs, err := schemeOf(kind)
	if err != nil {
		return nil, err
	}
	internal := gvk.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal}
	into, err := scheme.New(internal.WithKind(kind.Kind))
	if err != nil {
		return nil, err
	}
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return nil, fmt.Errorf("no serializer of JSON")
	}
	object, _, err := codecs.DecoderToVersion(info.Serializer, internal).Decode(sent, &kind, into)
	if err != nil {
		return nil, err
	}
	return runtime.Encode(codecs.EncoderForVersion(info.Serializer, kind.GroupVersion()), object)
}

// schemeOf is the scheme that has a kind.
func schemeOf(kind gvk.GroupVersionKind) (*runtime.Scheme, serializer.CodecFactory, error) {
	switch {
	case legacyscheme.Scheme.Recognizes(kind):
		return legacyscheme.Scheme, legacyscheme.Codecs, nil
	case apiextensions.Scheme.Recognizes(kind):
		return apiextensions.Scheme, apiextensions.Codecs, nil
	case aggregator.Scheme.Recognizes(kind):
		return aggregator.Scheme, aggregator.Codecs, nil
	default:
		return nil, serializer.CodecFactory{}, fmt.Errorf("no scheme has %s", kind)
	}
}

// object is a random object as JSON.
func (p *plausible) object(kind protobufKind) ([]byte, error) {
	value := reflect.New(kind.goType)
	p.size = 10 + p.IntN(150)
	p.fill(value.Elem(), "", 0)
	value.Interface().(runtime.Object).GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	text, err := json.Marshal(value.Interface())
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	for range p.IntN(3) {
		p.disturb(tree, "")
	}
	tree["apiVersion"], tree["kind"] = kind.GroupVersion().String(), kind.Kind
	if kind.goType.Name() == "DeleteOptions" {
		tree["apiVersion"] = "v1"
	}
	text, err = compactBytes(tree)
	return text, err
}

func compactBytes(value any) ([]byte, error) {
	text, err := compact(value)
	return []byte(text), err
}
