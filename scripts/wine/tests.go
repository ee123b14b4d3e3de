package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// testsFile says which packages are tested, and which tests fail under Wine; its head says how.
//
//go:embed tests.txt
var testsFile string

// A lack is a test that fails under Wine.
type lack struct {
	test, reason string
	hangs        bool // or ends the whole process: it is not run
}

// A tested package, and the tests of it that are run.
type tested struct {
	name, run string
	lacks     []lack
}

// parseTests reads testsFile.
func parseTests(text string) (all []*tested, err error) {
	for i, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		bad := func(want string) error { return fmt.Errorf("tests.txt:%d: %q, want %s", i+1, line, want) }
		switch {
		case len(f) == 0 || strings.HasPrefix(line, "#"):
		case f[0] == "package" && len(f) == 3:
			all = append(all, &tested{name: f[1], run: f[2]})
		case (f[0] == "lacks" || f[0] == "hangs") && len(f) > 2:
			if len(all) == 0 {
				return nil, bad("a package before it")
			}
			p := all[len(all)-1]
			p.lacks = append(p.lacks, lack{f[1], strings.Join(f[2:], " "), f[0] == "hangs"})
		default:
			return nil, bad("\"package NAME PATTERN\", \"lacks TEST REASON\" or \"hangs TEST REASON\"")
		}
	}
	return all, nil
}

// packages are the checks of packages.
func (w wine) packages() (all []check, err error) {
	list, err := parseTests(testsFile)
	for _, p := range list {
		all = append(all, check{"tests of " + p.name, func() error { return w.test(p) }})
	}
	return all, err
}

// test runs a package's tests and compares what they did with what is expected of them.
func (w wine) test(p *tested) error {
	const limit = 20 * time.Minute // to end a hang
	args := []string{"-test.v=test2json", "-test.short", "-test.timeout=" + limit.String(), "-test.run=" + p.run}
	var skip []string
	for _, l := range p.lacks {
		if l.hangs {
			skip = append(skip, "^"+l.test+"$")
		}
	}
	if len(skip) > 0 {
		args = append(args, "-test.skip="+strings.Join(skip, "|"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit+30*time.Second)
	defer cancel()
	cmd := w.command(ctx, p.name+".test.exe", args...)
	cmd.Dir = "go/" + p.name
	out, stderr, err := w.printed(cmd)
	out += stderr
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	events := exec.Command("go", "tool", "test2json")
	events.Stdin, events.Stderr = strings.NewReader(out), os.Stderr
	read, jsonErr := events.Output()
	if jsonErr != nil {
		return jsonErr
	}
	if w.verbose {
		fmt.Printf("%s\n", out)
	}
	r := readEvents(read)
	if err != nil && len(r.failed()) == 0 {
		return fmt.Errorf("%v; the end of what it said:\n%s", err, tail(out, 4000))
	}
	return r.judge(p, w.eight)
}

// results are what tests of a package did, by their names: pass, fail or skip; run is of one that has not ended.
type results struct {
	action map[string]string
	output map[string]string
}

func readEvents(b []byte) results {
	r := results{map[string]string{}, map[string]string{}}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Test == "" {
			continue
		}
		switch e.Action {
		case "output":
			r.output[e.Test] += e.Output
		case "run", "pass", "fail", "skip":
			r.action[e.Test] = e.Action
		}
	}
	return r
}

// failed returns the tests that failed or did not end, but for those whose parts did.
func (r results) failed() (names []string) {
	for name, a := range r.action {
		part := func(other string) bool {
			return strings.HasPrefix(other, name+"/") && (r.action[other] == "fail" || r.action[other] == "run")
		}
		if a != "fail" && a != "run" {
			continue
		}
		if !slices.ContainsFunc(sorted(r.action), part) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// judge returns what is not as expected: a failure that is not listed, and, of the Wine that the list is of, a lack that is none.
func (r results) judge(p *tested, eight bool) error {
	var wrong []string
	listed := func(name string) bool {
		return slices.ContainsFunc(p.lacks, func(l lack) bool { return l.test == name || strings.HasPrefix(name, l.test+"/") })
	}
	failed := r.failed()
	for _, name := range failed {
		if !listed(name) {
			wrong = append(wrong, fmt.Sprintf("%s: %s\n%s", p.name, name, tail(r.output[name], 3000)))
		}
	}
	for _, l := range p.lacks {
		is := func(name string) bool { return name == l.test || strings.HasPrefix(name, l.test+"/") }
		switch {
		case l.hangs || slices.ContainsFunc(failed, is):
		case r.action[l.test] == "":
			wrong = append(wrong, fmt.Sprintf("%s: %s is in tests.txt, and there is no such test among those that ran", p.name, l.test))
		case !eight:
			fmt.Printf("\t%s: %s, which fails under Wine 8, does not under this one: %s\n", p.name, l.test, r.action[l.test])
		default:
			wrong = append(wrong, fmt.Sprintf("%s: %s does not fail any more (%s): take it out of tests.txt", p.name, l.test, r.action[l.test]))
		}
	}
	count := map[string]int{}
	for _, name := range sorted(r.action) {
		if !strings.Contains(name, "/") {
			count[r.action[name]]++
		}
		if r.action[name] == "skip" {
			fmt.Printf("\t%s: %s is skipped: %s\n", p.name, name, because(r.output[name]))
		}
	}
	for _, l := range p.lacks {
		fmt.Printf("\t%s: %s fails: %s\n", p.name, l.test, l.reason)
	}
	fmt.Printf("\t%s: %d tests pass, %d fail, %d are skipped\n", p.name, count["pass"], count["fail"], count["skip"])
	if count["pass"] == 0 {
		wrong = append(wrong, p.name+": no test passed")
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "\n"))
	}
	return nil
}

func sorted(m map[string]string) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// because returns what a test said when it was skipped.
func because(output string) string {
	for _, line := range strings.Split(output, "\n") {
		if _, why, ok := strings.Cut(line, ".go:"); ok {
			_, why, _ = strings.Cut(why, ": ")
			return strings.TrimSpace(why)
		}
	}
	return "it does not say why"
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
