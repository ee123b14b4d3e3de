package arch

import (
	"os"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// withKey returns the error of a Llama that has this key too.
func withKey(t *testing.T, key string, value any) error {
	t.Helper()
	w := gguf.NewWriter()
	w.Set("general.architecture", "llama")
	for key, v := range map[string]any{
		"context_length": uint32(512), "embedding_length": uint32(64), "block_count": uint32(2),
		"feed_forward_length": uint32(64), "attention.head_count": uint32(4), "attention.layer_norm_rms_epsilon": float32(1e-5),
	} {
		w.Set("llama."+key, v)
	}
	if key != "" {
		w.Set("llama."+key, value)
	}
	w.AddTensor("token_embd.weight", gguf.F32, []uint64{64, 1}, gguf.Bytes(make([]byte, 256)))
	f := parsed(t, w)
	_, err := ReadConfig(f)
	return err
}

// TestEveryKeyIsJudged checks that each key that a file may have is read, refused by name if its value asks for what is
// not computed, or listed with what it is of.
func TestEveryKeyIsJudged(t *testing.T) {
	if err := withKey(t, "", nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		key, judgement, _ := strings.Cut(strings.TrimSpace(line), " ")
		what, more, _ := strings.Cut(judgement, " ")
		var value any = "x"
		switch {
		case what == "read" && more == "":
		case what == "other" && more == "3":
			value = uint32(3)
		case (what == "part" || what == "nothing") && more != "":
			if err := withKey(t, key, uint32(3)); err != nil {
				t.Errorf("%s: %v, though it is said to be %s", key, err, judgement)
			}
			continue
		default:
			t.Errorf("%s is not judged: %q", key, judgement)
			continue
		}
		err := withKey(t, key, value)
		if err == nil || !strings.Contains(err.Error(), `"llama.`+key+`"`) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s of %v: %v, want one line that names it", key, value, err)
		}
	}
}
