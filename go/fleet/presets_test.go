package fleet

import (
	"strings"
	"testing"
)

// FuzzPresets reads files of presets that are anything: sections of one name each, or what is wrong in a line.
func FuzzPresets(f *testing.F) {
	f.Add("version = 1\n[*]\nctx-size = 4096\n; none\n[a]\nmodel = a.gguf\nno-mmap = on\nLLAMA_ARG_TEMP = 0.5\n")
	f.Add("\ufeff[a]\r\nload-on-startup = maybe\n[b]\nkv-tiers = 256:i16,*:q8_0\nlora-scaled = x:1e999\n")
	f.Add("[a]\n[a]\n= 3\n[\nsamplers = top_k;x\nlogit-bias = 1+\noverride-kv = a=int:x\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, all, err := parsePresets(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q is no line", err)
			}
			return
		}
		seen := map[string]bool{"": true, "*": true}
		for _, s := range all {
			if seen[s.Name] {
				t.Errorf("a second model %q", s.Name)
			}
			seen[s.Name] = true
		}
	})
}
