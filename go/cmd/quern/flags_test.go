package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/internal/llamaflags"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/sample"
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
	return cmd, map[string]any{"n": &n, "ctk": &ctk, "temp": &temp, "word": &word}
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

// The flags that the table says do something are there, and no other flag of
// quern serve has a name that llama-server has for something else.
func TestEveryFlagOfTheTableIsDone(t *testing.T) {
	root := newRootCommand()
	serve, _, err := root.Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	serve.InitDefaultHelpFlag()
	for _, r := range llamaflags.Rows() {
		if r.Group == llamaflags.Bench || r.Group == llamaflags.Tools {
			continue
		}
		if r.Group == llamaflags.CLI {
			of, _, err := root.Find([]string{strings.TrimPrefix(cmp.Or(r.Of, "quern chat"), "quern ")})
			if err != nil || r.Flag != "" && of.Flags().Lookup(r.Flag) == nil {
				t.Errorf("%s has no --%s, which should do %s: %v", of.Name(), r.Flag, r.Names, err)
			}
			continue
		}
		if r.Flag != "" && serve.Flags().Lookup(r.Flag) == nil {
			t.Errorf("quern serve has no --%s, which should do %s", r.Flag, r.Names)
		}
		for _, to := range r.Becomes {
			name, value, _ := strings.Cut(to, "=")
			if err := serve.Flags().Set(name, value); err != nil {
				t.Errorf("%s becomes %s: %v", r.Names, to, err)
			}
		}
	}
}

func TestParseCPUs(t *testing.T) {
	for _, test := range []struct{ flag, in, want string }{
		{"mask", "0xF", "0-3"}, {"mask", "5", "0,2"}, {"mask", "100", "8"}, {"mask", "0", ""}, {"mask", "", ""}, {"mask", "0xg", ""}, {"mask", "-1", ""},
		{"mask", strings.Repeat("f", maxCPU), ""},
		{"span", "0-3", "0-3"}, {"span", "2-2", "2"}, {"span", "-1", "0-1"}, {"span", "8190-", "8190-8191"}, {"span", "3", ""}, {"span", "-", ""},
		{"span", "", ""}, {"span", "3-1", ""}, {"span", "0-8192", ""}, {"span", "a-b", ""}, {"span", "0-99999999999999999999", ""},
	} {
		ids, err := map[string]func(string) ([]int, error){"mask": parseMask, "span": parseSpan}[test.flag](test.in)
		if got := machine.Ranges(ids); got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%s %.20q: got %q, %v; want %q", test.flag, test.in, got, err, test.want)
		}
	}
}

// Words that stand for defaults, and values of others that have a place here.
func TestServeFlagValues(t *testing.T) {
	for _, test := range []struct {
		args    string
		check   func(f *serveFlags) bool
		warning string
	}{
		{"-np 4 -np -1", func(f *serveFlags) bool { return f.parallel == 32 }, ""},
		{"--no-kv-unified -c 64 -np 2", func(f *serveFlags) bool { return f.divides() }, ""},
		{"--no-kv-unified -c 64 -np 2 -np -1", func(f *serveFlags) bool { return !f.divides() }, ""},
		{"--no-kv-unified -c 64", func(f *serveFlags) bool { return !f.divides() }, ""},
		{"-c 64 -np 2", func(f *serveFlags) bool { return !f.divides() }, ""},
		{"-t 1 -t -1", func(f *serveFlags) bool { return f.threads == 0 }, ""},
		{"--threads 0", func(f *serveFlags) bool { return f.threads == 0 }, ""},
		{"--seed 4294967295", func(f *serveFlags) bool { return f.sampling.seed == -1 }, ""},
		{"--temp -1", func(f *serveFlags) bool { return f.sampling.over(sample.Defaults()).Temp == 0 }, ""},
		{"-ub 128", func(f *serveFlags) bool { return f.pass() == 128 }, ""},
		{"-b 2048 -ub 512", func(f *serveFlags) bool { return f.pass() == 512 }, ""},
		{"-b 64", func(f *serveFlags) bool { return f.pass() == 64 }, ""},
		{"", func(f *serveFlags) bool { return f.pass() == 0 && f.page && f.requests.cache }, ""},
		{"-ctk q5_1", func(f *serveFlags) bool { return f.typeK == "q8_0" }, "--cache-type-k q5_1: q8_0 is used"},
		{"-ctv IQ4_NL", func(f *serveFlags) bool { return f.typeV == "q4_0" }, "--cache-type-v IQ4_NL: q4_0 is used"},
		{"-ctk q5_1 -ctk f16", func(f *serveFlags) bool { return f.typeK == "f16" }, ""},
		{"--no-ui", func(f *serveFlags) bool { return !f.page }, ""},
		{"-a x,y --tags z --n-predict 7 --temperature 0.5", func(f *serveFlags) bool {
			return slices.Equal(f.names, []string{"x", "y"}) && slices.Equal(f.tags, []string{"z"}) && f.predict == 7 && f.sampling.params.Temp == 0.5
		}, ""},
		{"--no-mmap --no-repack", func(f *serveFlags) bool { return f.weights == "mapped" }, ""},
		{"--drain 5 --drain-delay 1.5 --keep-alive 600", func(f *serveFlags) bool {
			return f.drain == 5*time.Second && f.drainDelay == 1500*time.Millisecond && f.keepAlive == 10*time.Minute
		}, ""},
		{"--drain 150ms --mcp-timeout 2m", func(f *serveFlags) bool { return f.drain == 150*time.Millisecond && f.mcpTimeout == 2*time.Minute }, ""},
		{"--mcp-calls 3 --mcp-result-size 4Ki", func(f *serveFlags) bool { return f.mcpCalls == 3 && f.mcpResult == 4<<10 }, ""},
		{"-ngl 99", func(*serveFlags) bool { return true }, "-ngl 99 has no effect"},
	} {
		var f serveFlags
		fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		f.defineAll(fs)
		args, err := llamaflags.Rewrite(fs, strings.Fields(test.args))
		if err == nil {
			err = fs.Parse(args)
		}
		said := ""
		for _, line := range llamaflags.Warnings(fs) {
			said += line
		}
		if err != nil || !test.check(&f) || !strings.HasPrefix(said, test.warning) || (said == "") != (test.warning == "") {
			t.Errorf("%s: %v, %+v, warned %q", test.args, err, f, said)
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
		{fmt.Errorf("rank 1: %w", kernel.ErrRanks), 70, "rank 1: " + kernel.ErrRanks.Error()},
		{errSecond, 130, "it was ended by a second signal"},
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

// doubleDashes returns args as pflag takes them.
func doubleDashes(cmd *cobra.Command, args []string) []string {
	args, err := llamaflags.Rewrite(cmd.Flags(), args)
	if err != nil {
		panic(err) // the test's own arguments
	}
	return args
}

func TestKeyInArguments(t *testing.T) {
	for line, want := range map[string]bool{
		"serve --api-key secret": true, "serve --api-key=secret": true, "serve --api_key sha256:00,secret": true,
		"serve --api-key sha256:00": false, "serve --api-key-file keys": false, "serve --api-key": false, "serve": false,
	} {
		if got := keyInArguments(strings.Fields(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
