package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Each flag is of the whole server or of each model, and presets take the latter: a new one has to be sorted.
func TestFlagsAreSorted(t *testing.T) {
	each := strings.Fields(`
		adaptive-decay adaptive-target batch-size cache-prompt cache-type-k cache-type-v chat-template chat-template-file
		chat-template-kwargs context-shift ctx-size draft-max draft-min draft-p-min dry-allowed-length dry-base dry-multiplier dry-penalty-last-n dry-sequence-breaker
		dynatemp-exp dynatemp-range embd-normalize embeddings frequency-penalty grammar grammar-file ignore-eos json-schema
		json-schema-file keep kv-memory kv-tiers logit-bias min-p mirostat mirostat-ent mirostat-lr override-kv parallel pooling predict
		prefill-assistant presence-penalty quantize queue reasoning reasoning-budget reasoning-budget-message reasoning-effort
		reasoning-format repeat-last-n repeat-penalty reranking reverse-prompt rope-freq-base rope-freq-scale rope-scale rope-scaling sampler-seq samplers seed speculate split-special-tokens spm-infill target-itl
		temp top-k top-n-sigma top-p typical-p ubatch-size weights xtc-probability xtc-threshold
		yarn-attn-factor yarn-beta-fast yarn-beta-slow yarn-ext-factor yarn-orig-ctx`)
	var f serveFlags
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.SetNormalizeFunc(dashes)
	f.define(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		if fmt.Sprintf("%T", f.Value) == "*llamaflags.value" {
			return // llama-server's, without effect
		}
		if ofModel(f.Name) != slices.Contains(each, f.Name) {
			t.Errorf("--%s: is it of the whole server, or of each model? Put it in one of the lists", f.Name)
		}
	})
	for _, name := range slices.Concat(whole, each) {
		if fs.Lookup(name) == nil && name != "help" {
			t.Errorf("there is no --%s", name)
		}
	}
}

// What a preset says about keys and values is its model's alone.
func TestPresetOfKeysAndValues(t *testing.T) {
	var f serveFlags
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.SetNormalizeFunc(dashes)
	f.define(fs)
	for _, settings := range [][]setting{
		{{key: "kv-tiers", value: "256:i16,*:q8_0"}},
		{{key: "context-shift", value: "true"}, {key: "keep", value: "7"}},
	} {
		c, err := f.configure(func(line string) { t.Errorf("%s", line) }, settings...)
		if err != nil {
			t.Fatal(err)
		}
		e, err := c.model.settings()
		if err != nil {
			t.Fatal(err)
		}
		if tiers := settings[0].key == "kv-tiers"; tiers != (e.Tiers.String() == "256:i16,*:q8_0") || tiers == e.Shift || tiers == (c.model.keep == 7) {
			t.Errorf("%v: tiers %v, shift %v, keep %d", settings, e.Tiers, e.Shift, c.model.keep)
		}
	}
}

// FuzzPresets reads files of presets that are anything: models of one name each, with flags or what is wrong with them in a line.
func FuzzPresets(f *testing.F) {
	f.Add("version = 1\n[*]\nctx-size = 4096\n; none\n[a]\nmodel = a.gguf\nno-mmap = on\nLLAMA_ARG_TEMP = 0.5\n")
	f.Add("\ufeff[a]\r\nload-on-startup = maybe\n[b]\nkv-tiers = 256:i16,*:q8_0\nlora-scaled = x:1e999\n")
	f.Add("[a]\n[a]\n= 3\n[\nsamplers = top_k;x\nlogit-bias = 1+\noverride-kv = a=int:x\n")
	var flags serveFlags
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.SetNormalizeFunc(dashes)
	flags.define(fs)
	line := func(t *testing.T, err error) {
		if strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("%q is no line", err)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		common, all, err := parsePresets(text)
		if err != nil {
			line(t, err)
			return
		}
		seen := map[string]bool{"": true, "*": true}
		for _, p := range all {
			if seen[p.name] {
				t.Errorf("a second model %q", p.name)
			}
			seen[p.name] = true
			settings := slices.DeleteFunc(slices.Concat(common, p.settings), func(s setting) bool {
				return strings.HasSuffix(strings.ReplaceAll(strings.ToLower(s.key), "_", "-"), "file") // which would be read
			})
			if _, err := flags.configure(func(string) {}, settings...); err != nil {
				line(t, err)
			}
		}
	})
}
