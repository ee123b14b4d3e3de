package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A test is one row of llama-bench: a prompt, or tokens generated one by one, after
// depth tokens of context.
type test struct {
	prompt, gen, depth int
}

// String returns llama-bench's name of the test, without spaces.
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

// parseTests parses a comma-separated list of names such as pp512 and tg128@d4096.
func parseTests(s string) ([]test, error) {
	if s == "" {
		return nil, nil
	}
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

// mostPrompts is the maximum number of points of a curve; more is a typing error.
const mostPrompts = 1024

// parseCurve parses lists such as 1-8,16,32 into prompts in ascending order. The first
// has one token, as the reference.
func parseCurve(s string) ([]test, error) {
	if s == "" {
		return nil, nil
	}
	prompts := map[int]bool{1: true}
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, err := positive(from)
		last := first
		if err == nil && isRange {
			last, err = positive(to)
		}
		if err != nil || last < first {
			return nil, fmt.Errorf("%q, want numbers and ranges such as 1-8,16,32", part)
		}
		if last-first >= mostPrompts {
			return nil, fmt.Errorf("%q is more than %d prompts", part, mostPrompts)
		}
		for n := first; n <= last; n++ {
			prompts[n] = true
		}
	}
	if len(prompts) > mostPrompts {
		return nil, fmt.Errorf("more than %d prompts", mostPrompts)
	}
	var tests []test
	for _, n := range slices.Sorted(maps.Keys(prompts)) {
		tests = append(tests, test{prompt: n})
	}
	return tests, nil
}

// union returns a, followed by the tests of b that a lacks.
func union(a, b []test) []test {
	all := slices.Clone(a)
	for _, t := range b {
		if !slices.Contains(a, t) {
			all = append(all, t)
		}
	}
	return all
}

// A launch is the tests of one run of llama-bench: it takes lists of prompts and of
// generations, at one depth.
type launch struct {
	depth         int
	tests         []test
	prompts, gens []string
}

// launchTests is the maximum number of tests of a launch: engines alternate by launch,
// and the load of the machine changes within minutes.
const launchTests = 8

// launches groups tests by depth, in order of appearance.
func launches(tests []test) []*launch {
	var out []*launch
	open := map[int]*launch{} // by depth
	for _, t := range tests {
		l := open[t.depth]
		if l == nil || len(l.tests) == launchTests {
			l = &launch{depth: t.depth}
			open[t.depth] = l
			out = append(out, l)
		}
		l.tests = append(l.tests, t)
		if t.gen > 0 {
			l.gens = append(l.gens, strconv.Itoa(t.gen))
		} else {
			l.prompts = append(l.prompts, strconv.Itoa(t.prompt))
		}
	}
	return out
}

// args are the flags of the launch that every llama-bench accepts.
func (l *launch) args(model string, c *config) []string {
	list := func(values []string) string {
		if len(values) == 0 {
			return "0" // none; without the flag it would be the default
		}
		return strings.Join(values, ",")
	}
	args := []string{"-m", model, "-p", list(l.prompts), "-n", list(l.gens), "-r", strconv.Itoa(c.reps), "-o", "json"}
	if l.depth > 0 {
		args = append(args, "-d", strconv.Itoa(l.depth))
	}
	if c.threads > 0 {
		args = append(args, "-t", strconv.Itoa(c.threads))
	}
	return append(args, c.shared...)
}

// kernelArgs are the flags for measuring Quern's kernels alone.
func (c *config) kernelArgs() []string {
	args := []string{"--kernels", "-r", strconv.Itoa(c.reps)}
	if c.threads > 0 {
		args = append(args, "-t", strconv.Itoa(c.threads))
	}
	return args
}

// testList formats tests for -tests.
func testList(tests []test) string {
	var names []string
	for _, t := range tests {
		names = append(names, t.String())
	}
	return strings.Join(names, ",")
}

// promptList formats a curve's prompts for -curve: 1-32,48,64.
func promptList(curve []test) string {
	var parts []string
	for i := 0; i < len(curve); {
		j := i
		for j+1 < len(curve) && curve[j+1].prompt == curve[j].prompt+1 {
			j++
		}
		part := strconv.Itoa(curve[i].prompt)
		if j > i {
			part += "-" + strconv.Itoa(curve[j].prompt)
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
