package main

import (
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/kvcache"
)

// A benchSetup is how a model is loaded. Tests that share one share the load.
type benchSetup struct {
	model         string
	batch, ubatch int
	kv            kvcache.Types
	flashAttn     int // -1 auto, 1 on: llama.cpp's numbers; the same to us
	threads       int
}

// A benchCase is one row of the result.
type benchCase struct {
	prompt, gen, depth int
}

// String returns the name that llama-bench gives the row.
func (c benchCase) String() string {
	var name string
	switch {
	case c.gen == 0:
		name = fmt.Sprintf("pp%d", c.prompt)
	case c.prompt == 0:
		name = fmt.Sprintf("tg%d", c.gen)
	default:
		name = fmt.Sprintf("pp%d+tg%d", c.prompt, c.gen)
	}
	if c.depth > 0 {
		name += fmt.Sprintf(" @ d%d", c.depth)
	}
	return name
}

// setups returns every combination of the flags that say how to load, in
// llama-bench's order.
func (f *benchFlags) setups() ([]benchSetup, error) {
	kvs, err := f.kvTypes()
	if err != nil {
		return nil, err
	}
	var list []benchSetup
	for _, model := range f.models {
		for _, batch := range f.batch {
			for _, ubatch := range f.ubatch {
				for _, kv := range kvs {
					for _, fa := range f.flashAttn {
						for _, threads := range f.threads {
							list = append(list, benchSetup{model, batch, ubatch, kv, flashAttnNumber(fa), threads})
						}
					}
				}
			}
		}
	}
	return list, nil
}

// cases returns the tests of each setup: prompts, then generations, then both,
// at each depth.
func (f *benchFlags) cases() []benchCase {
	var list []benchCase
	for _, d := range f.depth {
		for _, n := range f.prompt {
			list = append(list, benchCase{n, 0, d})
		}
		for _, n := range f.gen {
			list = append(list, benchCase{0, n, d})
		}
		for _, t := range f.promptGen {
			list = append(list, benchCase{t.prompt, t.gen, d})
		}
	}
	some := list[:0]
	for _, c := range list {
		if c.prompt+c.gen > 0 { // -p 0 is how to ask for none
			some = append(some, c)
		}
	}
	return some
}

// kvTypes returns every combination of the types of keys and of values.
func (f *benchFlags) kvTypes() ([]kvcache.Types, error) {
	var list []kvcache.Types
	for _, name := range f.typeK {
		k, err := kvcache.ParseType(name)
		if err != nil {
			return nil, usagef("--cache-type-k: %w", err)
		}
		for _, name := range f.typeV {
			v, err := kvcache.ParseType(name)
			if err != nil {
				return nil, usagef("--cache-type-v: %w", err)
			}
			list = append(list, kvcache.Types{K: k, V: v})
		}
	}
	return list, nil
}

func flashAttnNumber(word string) int {
	switch strings.ToLower(word) {
	case "auto", "-1":
		return -1
	}
	return 1
}
