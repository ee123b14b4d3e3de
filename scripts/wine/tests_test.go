package main

import (
	"strings"
	"testing"
)

func TestParseTests(t *testing.T) {
	all, err := parseTests("# a comment\npackage mem .\nlacks TestA it has no A\nhangs TestB for ever\n\npackage gguf ^TestC$\n")
	if err != nil || len(all) != 2 || all[0].name != "mem" || len(all[0].lacks) != 2 || all[0].lacks[0] != (lack{"TestA", "it has no A", false}) ||
		!all[0].lacks[1].hangs || all[1].run != "^TestC$" {
		t.Errorf("%+v, %v", all, err)
	}
	for _, bad := range []string{"package mem", "lacks TestA why", "package mem .\nlacks TestA", "other"} {
		if _, err := parseTests(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := parseTests(testsFile); err != nil {
		t.Error(err)
	}
}

func TestJudge(t *testing.T) {
	events := func(lines ...string) results {
		var b strings.Builder
		for _, line := range lines {
			action, name, _ := strings.Cut(line, " ")
			b.WriteString(`{"Action":"run","Test":"` + name + `"}` + "\n" + `{"Action":"` + action + `","Test":"` + name + `"}` + "\n")
		}
		return readEvents([]byte(b.String()))
	}
	lacks := &tested{name: "p", lacks: []lack{{"TestA", "why", false}, {"TestB/part", "why", false}}}
	for _, test := range []struct {
		want string // in the error; empty: none
		r    results
	}{
		{"", events("fail TestA", "fail TestB/part", "fail TestB", "pass TestC", "skip TestD")},
		{"", events("fail TestA/part", "fail TestA", "fail TestB/part", "fail TestB", "pass TestC")},
		{"TestC", events("fail TestA", "fail TestB/part", "fail TestB", "fail TestC", "pass TestE")},
		{"TestC", events("fail TestA", "fail TestB/part", "fail TestB", "run TestC", "pass TestE")}, // it did not end
		{"TestB/other", events("fail TestA", "fail TestB/part", "fail TestB/other", "fail TestB", "pass TestC")},
		{"TestA does not fail", events("pass TestA", "fail TestB/part", "fail TestB", "pass TestC")},
		{"TestA does not fail", events("skip TestA", "fail TestB/part", "fail TestB", "pass TestC")},
		{"no such test", events("fail TestB/part", "fail TestB", "pass TestC")},
		{"no test passed", events("fail TestA", "fail TestB/part", "fail TestB")},
	} {
		if err := test.r.judge(lacks, true); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test.r.action, err, test.want)
		}
	}
	if err := events("pass TestA", "fail TestB/part", "fail TestB").judge(lacks, false); err != nil {
		t.Errorf("another Wine, which can do more: %v", err)
	}
	if err := events("fail TestA", "fail TestB/part", "fail TestB", "fail TestC", "pass TestE").judge(lacks, false); err == nil {
		t.Error("another Wine, under which another test fails: no error")
	}
}
