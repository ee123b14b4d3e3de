package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// sample command with every kind of flag.
func newTestCommand() (*cobra.Command, map[string]any) {
	cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return nil }}
	fs := cmd.Flags()
	fs.SetNormalizeFunc(dashes)
	var n, ctk int
	var temp float32
	var word string
	intVar(fs, &n, "predict", "n", 7, -1, 100, "")
	intVar(fs, &ctk, "cache-type-k", "", 0, 0, 100, "")
	intVar(fs, new(int), "ctx", "c", 0, 0, 100, "")
	floatVar(fs, &temp, "temp", 0.8, 0, 100, "")
	choiceVar(fs, &word, "weights", "auto", []string{"auto", "packed"}, "")
	fs.StringP("prompt", "p", "", "")
	fs.BoolP("stats", "v", false, "")
	alias(fs, "cache-type-k", "ctk")
	alias(fs, "prompt", "pg")
	return cmd, map[string]any{"n": &n, "ctk": &ctk, "temp": &temp, "word": &word}
}

func TestDoubleDashes(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"-ctk 5", "--cache-type-k 5"},
		{"-ctk=5 -n 3", "--cache-type-k=5 -n 3"},
		{"-pg 512,128 -ctk 5", "--prompt 512,128 --cache-type-k 5"},
		{"--cache-type-k -ctk", "--cache-type-k -ctk"}, // the value of the flag before
		{"-p -ctk", "-p -ctk"},
		{"-vp -ctk", "-vp -ctk"},
		{"-px -ctk 5", "-px --cache-type-k 5"}, // -p has its value
		{"--prompt=x -ctk 5", "--prompt=x --cache-type-k 5"},
		{"-v -ctk 5", "-v --cache-type-k 5"},
		{"--stats -ctk 5", "--stats --cache-type-k 5"},
		{"-- -ctk 5", "-- -ctk 5"},
		{"-ct 5", "-ct 5"},
		{"ctk pg", "ctk pg"},
		{"- -ctk 5", "- --cache-type-k 5"},
	} {
		cmd, _ := newTestCommand()
		in := strings.Fields(test.in)
		before := slices.Clone(in)
		if got := strings.Join(doubleDashes(cmd, in), " "); got != test.want {
			t.Errorf("%q: got %q, want %q", test.in, got, test.want)
		}
		if !slices.Equal(in, before) {
			t.Errorf("%q: the caller's arguments were changed", test.in)
		}
	}
}

func TestValues(t *testing.T) {
	for _, test := range []struct{ flag, value, want string }{ // want: part of the error, "" for none
		{"predict", "-1", ""},
		{"predict", "100", ""},
		{"predict", "-2", "from -1 to 100"},
		{"predict", "101", "from -1 to 100"},
		{"predict", "1e9", "from -1 to 100"},
		{"predict", "", "from -1 to 100"},
		{"predict", "99999999999999999999", "from -1 to 100"},
		{"temp", "0", ""},
		{"temp", "1e2", ""},
		{"temp", "nan", "from 0 to 100"},
		{"temp", "inf", "from 0 to 100"},
		{"temp", "-0.1", "from 0 to 100"},
		{"temp", "warm", "from 0 to 100"},
		{"weights", "PACKED", ""},
		{"weights", "zipped", "one of auto, packed"},
	} {
		cmd, _ := newTestCommand()
		err := cmd.ParseFlags([]string{"--" + test.flag, test.value})
		switch {
		case test.want == "" && err != nil:
			t.Errorf("--%s %s: %v", test.flag, test.value, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) ||
			!strings.Contains(err.Error(), test.flag) || !strings.Contains(err.Error(), test.value)):
			t.Errorf("--%s %q: got %v, want an error with the flag, the value and %q", test.flag, test.value, err, test.want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for _, test := range []struct {
		in   string
		want uint64 // 0 is an error
	}{
		{"4G", 4e9}, {"4GB", 4e9}, {"4g", 4e9}, {"4GiB", 4 << 30}, {"4Gi", 4 << 30},
		{"800M", 800e6}, {"3.5k", 3500}, {"1T", 1e12}, {"1024", 1024}, {"1024B", 1024}, {" 2 G ", 0},
		{"", 0}, {"G", 0}, {"0", 0}, {"-4G", 0}, {"nan", 0}, {"inf", 0}, {"1e30", 0}, {"4iB", 0}, {"4X", 0}, {"1E", 0},
	} {
		got, err := parseBytes(test.in)
		if (err != nil) != (test.want == 0) || got != test.want {
			t.Errorf("%q: got %d, %v; want %d", test.in, got, err, test.want)
		}
	}
}

func TestEnvironmentStandsInForFlags(t *testing.T) {
	t.Setenv("QUERN_PREDICT", "5")
	t.Setenv("LLAMA_ARG_N_PREDICT", "6")    // ours comes first
	t.Setenv("LLAMA_ARG_CACHE_TYPE_K", "9") // an alias alone
	t.Setenv("QUERN_TEMP", "2")             // the command line comes first
	t.Setenv("QUERN_WEIGHTS", "")           // empty is not set
	cmd, got := newTestCommand()
	if err := cmd.ParseFlags([]string{"--temp", "3"}); err != nil {
		t.Fatal(err)
	}
	if err := applyEnvironment(cmd.Flags()); err != nil {
		t.Fatal(err)
	}
	if n, ctk := *got["n"].(*int), *got["ctk"].(*int); n != 5 || ctk != 9 {
		t.Errorf("got predict %d and cache-type-k %d, want 5 and 9", n, ctk)
	}
	if temp, word := *got["temp"].(*float32), *got["word"].(*string); temp != 3 || word != "auto" {
		t.Errorf("got temp %v and weights %q, want 3 and auto", temp, word)
	}
}

func TestEnvironmentIsCheckedLikeFlags(t *testing.T) {
	t.Setenv("QUERN_TEMP", "hot")
	cmd, _ := newTestCommand()
	code, message := outcome(applyEnvironment(cmd.Flags()))
	if code != exitUsage || !strings.Contains(message, "QUERN_TEMP") || !strings.Contains(message, `"hot"`) {
		t.Errorf("got code %d and %q, want %d with the variable and its value", code, message, exitUsage)
	}
}

func TestEveryFlagOfLlamaArgsExists(t *testing.T) {
	known := map[string]bool{}
	for _, cmd := range newRootCommand().Commands() {
		for name := range llamaArgs {
			known[name] = known[name] || cmd.Flags().Lookup(name) != nil
		}
	}
	for name := range llamaArgs {
		if !known[name] {
			t.Errorf("no command has --%s, which %s should set", name, llamaArgs[name])
		}
	}
}

func TestOutcome(t *testing.T) {
	for _, test := range []struct {
		err     error
		code    int
		message string
	}{
		{nil, 0, ""},
		{errors.New("file\nof\ttwo lines"), 1, "file of two lines"},
		{usagef("bad %s", "flag"), 2, "bad flag"},
		{fmt.Errorf("wrapped: %w", usagef("bad flag")), 2, "wrapped: bad flag"},
		{fmt.Errorf("decode: %w", context.Canceled), 130, ""},
	} {
		code, message := outcome(test.err)
		if code != test.code || message != test.message {
			t.Errorf("%v: got %d %q, want %d %q", test.err, code, message, test.code, test.message)
		}
	}
}

func TestPrintable(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"Once", "Once"}, {" upon", " upon"}, {"é世", "é世"}, {"\n\t", `\n\t`}, {"\xe4\xb8", `\xe4\xb8`},
		{"\x1b[31m", `\x1b[31m`}, {"it's", "it's"}, {"\u202e", `\u202e`}, {"\ufffd", "\ufffd"},
	} {
		if got := printable([]byte(test.in)); got != test.want {
			t.Errorf("%q: got %s, want %s", test.in, got, test.want)
		}
	}
}

func TestRanges(t *testing.T) {
	for want, ids := range map[string][]int{"": nil, "4": {4}, "0-3,8,10-11": {0, 1, 2, 3, 8, 10, 11}} {
		if got := ranges(ids); got != want {
			t.Errorf("%v: got %q, want %q", ids, got, want)
		}
	}
}
