package family

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// classes returns the keys of config.json that transformers writes for each class of models, with their defaults.
func classes(t *testing.T) map[string]map[string]string {
	text, err := os.ReadFile("../testdata/transformers.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]string{}
	var class map[string]string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case line[0] == '\t':
			name, value, _ := strings.Cut(line[1:], " ")
			class[name] = value
		default:
			class = map[string]string{}
			all[line] = class
		}
	}
	return all
}

// write writes config.json with these values, given by paths.
func write(t *testing.T, values map[string]string, class string) string {
	root := map[string]any{"architectures": []any{class}}
	for path, value := range values {
		at := root
		names := strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			if at[name] == nil {
				at[name] = map[string]any{}
			}
			at = at[name].(map[string]any)
		}
		var v any
		if err := json.Unmarshal([]byte(value), &v); err != nil {
			t.Fatal(err)
		}
		at[names[len(names)-1]] = v
	}
	text, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/config.json", text, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// refused are classes whose configurations, as transformers writes them by default, ask for what is not computed, and
// what is said of them.
var refused = map[string]string{
	"Lfm2MoeForCausalLM":                      "layer_types names 0 layers of 32", // nor does transformers run it
	"MiniMaxM3SparseForConditionalGeneration": "layers that attend to chosen spans are others than those with experts",
	"Qwen4ExpForCausalLM":                     "no indexer_compress_ratio",
	"Qwen4ExpForConditionalGeneration":        "no indexer_compress_ratio",
}

// TestEveryKeyIsJudged checks that a family reads each key that transformers writes for its models, or says that it
// decides nothing, or which values it may have.
func TestEveryKeyIsJudged(t *testing.T) {
	number := regexp.MustCompile(`\.\d+\.`)
	left := map[string][]string{}
	for class, values := range classes(t) {
		t.Run(class, func(t *testing.T) {
			c, err := hf.Read(write(t, values, class))
			if err != nil {
				t.Fatal(err)
			}
			f, err := Of(c)
			if err == nil {
				k := &lang.Keys{Config: c, Arch: f.Arch}
				k.All(f)
				if f.Extra != nil && c.Err() == nil {
					f.Extra(c)
				}
				err = c.Err()
			}
			if why := refused[class]; why != "" || err != nil {
				if err == nil || why == "" || !strings.Contains(err.Error(), why) {
					t.Errorf("%v, want %q", err, why)
				}
				return
			}
			for _, path := range Unjudged(c, f.Arch) {
				path = number.ReplaceAllString(path, ".#.")
				if !slices.Contains(left[path], f.Arch) {
					left[path] = append(left[path], f.Arch)
				}
			}
		})
	}
	for path, archs := range left {
		slices.Sort(archs)
		t.Errorf("%s is not judged for %s", path, strings.Join(archs, " "))
	}
}
