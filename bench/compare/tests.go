package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A test is one row of llama-bench: a prompt of some tokens, or as many
// generated one by one, after depth others.
type test struct {
	prompt, gen, depth int
}

// String returns the name that llama-bench's tables give it, without spaces.
func (t test) String() string {
	name := fmt.Sprintf("pp%d", t.prompt)
	if t.gen > 0 {
		name = fmt.Sprintf("tg%d", t.gen)
	}
	if t.depth > 0 {
		name += fmt.Sprintf("@d%d", t.depth)
	}
	return name
}

// parseTests reads names such as pp512 and tg128@d4096, with commas between.
func parseTests(s string) ([]test, error) {
	var tests []test
	seen := map[test]bool{}
	for name := range strings.SplitSeq(s, ",") {
		t, err := parseTest(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if seen[t] {
			return nil, fmt.Errorf("%s comes twice", t)
		}
		seen[t] = true
		tests = append(tests, t)
	}
	return tests, nil
}

func parseTest(name string) (test, error) {
	bad := fmt.Errorf("test %q, want one such as pp512, tg128 or tg128@d4096", name)
	var t test
	what, depth, deep := strings.Cut(name, "@d")
	if deep {
		n, err := positive(depth)
		if err != nil {
			return test{}, bad
		}
		t.depth = n
	}
	number, prompt := strings.CutPrefix(what, "pp")
	number, gen := strings.CutPrefix(number, "tg")
	n, err := positive(number)
	if err != nil || prompt == gen {
		return test{}, bad
	}
	if prompt {
		t.prompt = n
	} else {
		t.gen = n
	}
	return t, nil
}

func positive(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && n < 1 {
		err = errors.New("not positive")
	}
	return n, err
}

// A launch is tests that one run of a llama-bench does: it takes lists of
// prompts and of generations, at one depth.
type launch struct {
	depth         int
	prompts, gens []string
}

// launches groups tests by depth, in order of appearance.
func launches(tests []test) []launch {
	var out []launch
	at := map[int]int{}
	for _, t := range tests {
		i, ok := at[t.depth]
		if !ok {
			i = len(out)
			at[t.depth] = i
			out = append(out, launch{depth: t.depth})
		}
		if t.gen > 0 {
			out[i].gens = append(out[i].gens, strconv.Itoa(t.gen))
		} else {
			out[i].prompts = append(out[i].prompts, strconv.Itoa(t.prompt))
		}
	}
	return out
}

// args are the flags of the launch that every llama-bench takes.
func (l launch) args(model string, threads, reps int) []string {
	list := func(values []string) string {
		if len(values) == 0 {
			return "0" // none, where leaving the flag out would be the default
		}
		return strings.Join(values, ",")
	}
	args := []string{"-m", model, "-p", list(l.prompts), "-n", list(l.gens), "-r", strconv.Itoa(reps), "-o", "json"}
	if l.depth > 0 {
		args = append(args, "-d", strconv.Itoa(l.depth))
	}
	if threads > 0 {
		args = append(args, "-t", strconv.Itoa(threads))
	}
	return args
}
