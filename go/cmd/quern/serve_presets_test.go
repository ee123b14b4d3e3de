package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/fleet"
)

// newServe returns the flags of "quern serve" as the command has them.
func newServe() *serveFlags {
	var f serveFlags
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.SetNormalizeFunc(dashes)
	f.defineAll(fs)
	return &f
}

// A flag is defined on the set of what its variable is of, the whole server or each model: presets take the latter.
func TestFlagsAreSorted(t *testing.T) {
	values := []string{
		"2", "on", "none", "256:i16,*:q8_0", "a=int:1", "5+1", "q8_0", "mean", "0xf", "0-1", "linear", "debug", "mapped",
		"top_k", "k", "1s", "{}", "high", "off", "layers", "low", "true", "exact", "1", "0.25", "0", "16", "brave",
	}
	var f serveFlags
	set := func(name string) *pflag.FlagSet { return pflag.NewFlagSet(name, pflag.ContinueOnError) }
	whole, which, each := set("whole"), set("which"), set("each")
	f.define(whole, which, each)
	state := func() (server, model string) {
		return fmt.Sprintf("%+v", f.serverFlags), fmt.Sprintf("%+v", f.servedFlags)
	}
	for _, fs := range []*pflag.FlagSet{whole, which, each} {
		fs.VisitAll(func(flag *pflag.Flag) {
			server, model := state()
			for _, v := range values {
				if flag.Value.Set(v) != nil {
					continue
				}
				if s, m := state(); s != server || m != model {
					if (s != server) != (fs == whole) {
						t.Errorf("--%s %s changes the server: %v, the model: %v, and is defined as of the other", flag.Name, v, s != server, m != model)
					}
					return
				}
			}
			if !slices.Contains([]string{"model-cache", "offline", "hf-token", "yes", "hf-repo", "hf-file", "model-url", "docker-repo", "remote"}, flag.Name) { // of the hub
				t.Errorf("--%s changes nothing: give the test a value that does", flag.Name)
			}
		})
	}
}

// What a preset says about keys and values is its model's alone.
func TestPresetOfKeysAndValues(t *testing.T) {
	f := newServe()
	for _, settings := range [][]fleet.Setting{
		{{Key: "kv-tiers", Value: "256:i16,*:q8_0"}},
		{{Key: "context-shift", Value: "true"}, {Key: "keep", Value: "7"}},
	} {
		c, err := f.configure(fleet.Section{Settings: settings}, func(line string) { t.Errorf("%s", line) })
		if err != nil {
			t.Fatal(err)
		}
		e := c.Launch
		if tiers := settings[0].Key == "kv-tiers"; tiers != (e.Tiers.String() == "256:i16,*:q8_0") || tiers == e.Shift || tiers == (c.Keep == 7) {
			t.Errorf("%v: tiers %v, shift %v, keep %d", settings, e.Tiers, e.Shift, c.Keep)
		}
	}
}

// A preset says which projector its model has, or that it has none.
func TestPresetOfProjectors(t *testing.T) {
	for setting, want := range map[fleet.Setting]string{
		{Key: "mmproj", Value: "eyes.gguf"}: "eyes.gguf false", {Key: "LLAMA_ARG_MMPROJ", Value: "eyes.gguf"}: "eyes.gguf false",
		{Key: "no-mmproj", Value: "true"}: " true", {Key: "mmproj-auto", Value: "off"}: " true", {Key: "keep", Value: "7"}: " false",
	} {
		c, err := newServe().configure(fleet.Section{Settings: []fleet.Setting{setting}}, func(line string) { t.Errorf("%s", line) })
		if got := fmt.Sprint(c.Launch.Projector, " ", c.Launch.NoProjector); err != nil || got != want {
			t.Errorf("%v: %q, %v, want %q", setting, got, err, want)
		}
	}
}

// FuzzSections reads sections of files of presets that are anything: as flags, or what is wrong with them in a line.
func FuzzSections(f *testing.F) {
	f.Add("ctx-size = 4096\nmodel = a.gguf\nno-mmap = on\nLLAMA_ARG_TEMP = 0.5\n")
	f.Add("load-on-startup = maybe\nkv-tiers = 256:i16,*:q8_0\nlora-scaled = x:1e999\n")
	f.Add("samplers = top_k;x\nlogit-bias = 1+\noverride-kv = a=int:x\n= 3\n")
	flags := newServe()
	f.Fuzz(func(t *testing.T, text string) {
		var s fleet.Section
		for line := range strings.SplitSeq(text, "\n") {
			key, value, _ := strings.Cut(line, "=")
			key = strings.TrimSpace(key)
			if strings.HasSuffix(strings.ReplaceAll(strings.ToLower(key), "_", "-"), "file") {
				continue // it would be read
			}
			s.Settings = append(s.Settings, fleet.Setting{Key: key, Value: strings.TrimSpace(value)})
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) {
			return // a file of presets has none of these in a line
		}
		c, err := flags.configure(s, func(string) {})
		for _, err := range []error{err, c.Broken} {
			if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q is no line", err)
			}
		}
	})
}

// A switch that the command line turns off is off for models of the catalog.
func TestInheritedSwitches(t *testing.T) {
	t.Parallel()
	sets := [2]*pflag.FlagSet{pflag.NewFlagSet("to", pflag.ContinueOnError), pflag.NewFlagSet("from", pflag.ContinueOnError)}
	var values [2][3]bool
	for i, fs := range sets {
		switchVar(fs, &values[i][0], "a", true, "")
		switchVar(fs, &values[i][1], "b", false, "")
		switchVar(fs, &values[i][2], "c", true, "")
	}
	if err := errors.Join(sets[1].Set("a", "off"), sets[1].Set("b", "on"), inherit(sets[0], sets[1])); err != nil {
		t.Fatal(err)
	}
	if want := [3]bool{false, true, true}; values[0] != want || !sets[0].Changed("a") || sets[0].Changed("c") {
		t.Errorf("%v, want %v", values[0], want)
	}
}
