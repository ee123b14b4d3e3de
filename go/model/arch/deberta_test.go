package arch

import (
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// TestDistanceKeys gives a header of DeBERTa absurd distances and convolutions. Each is an error of one line that names
// the key or the tensor.
func TestDistanceKeys(t *testing.T) {
	for _, tt := range []struct {
		key    string
		value  any
		tensor []uint64 // of the convolution
		want   string
	}{
		{key: "attention.relative_positions", value: uint32(512)},
		{key: "attention.relative_positions", value: uint32(0), want: "0, want 1 to"},
		{key: "attention.relative_positions", value: int32(-1), want: "-1, want 1 to"},
		{key: "attention.relative_positions", value: uint32(1 << 31), want: "want 1 to 16384"},
		{key: "attention.relative_positions", value: "many", want: "relative_positions"},
		{key: "attention.relative_buckets_count", value: uint32(0)},
		{key: "attention.relative_buckets_count", value: uint32(256)},
		{key: "attention.relative_buckets_count", value: int32(-8), want: "-8, want 0 to"},
		{key: "attention.relative_buckets_count", value: uint32(2), want: "2 buckets of 512 distances"},
		{key: "attention.relative_buckets_count", value: uint32(255), want: "255 buckets"},
		{key: "attention.relative_buckets_count", value: uint32(1022), want: "1022 buckets"},
		{key: "attention.relative_buckets_count", value: uint32(1 << 30), want: "want 0 to"},
		{key: "attention.head_count", value: uint32(8), want: "heads of 8 channels"},
		{key: "attention.head_count_kv", value: uint32(2), want: "that share 2 keys"},
		{key: "attention.scale", value: float32(0), want: "attention.scale"},
		{tensor: []uint64{192, 64}},
		{tensor: []uint64{64, 64}, want: `"conv.weight": shape [64 64]`},
		{tensor: []uint64{200, 64}, want: "[200 64]"},
		{tensor: []uint64{192}, want: "[192]"},
		{tensor: []uint64{64 * 9, 64}, want: "[576 64]"},
		{key: "quern.conv.activation", value: "sine", tensor: []uint64{192, 64}, want: `"sine"`},
	} {
		w := gguf.NewWriter()
		keys := map[string]any{
			"general.architecture": "deberta", "deberta.context_length": uint32(512), "deberta.embedding_length": uint32(64),
			"deberta.block_count": uint32(2), "deberta.feed_forward_length": uint32(64), "deberta.attention.head_count": uint32(4),
			"deberta.attention.layer_norm_epsilon": float32(1e-7), "deberta.attention.relative_positions": uint32(512),
		}
		switch {
		case strings.HasPrefix(tt.key, "quern."):
			keys[tt.key] = tt.value
		case tt.key != "":
			keys["deberta."+tt.key] = tt.value
		}
		for key, v := range keys {
			w.Set(key, v)
		}
		w.AddTensor("token_embd.weight", gguf.F32, []uint64{64, 1}, gguf.Bytes(make([]byte, 256)))
		if tt.tensor != nil {
			n := uint64(4)
			for _, d := range tt.tensor {
				n *= d
			}
			w.AddTensor("conv.weight", gguf.F32, tt.tensor, gguf.Bytes(make([]byte, n)))
		}
		f := parsed(t, w)
		_, err := ReadConfig(f)
		if (err != nil) != (tt.want != "") || err != nil && (!strings.Contains(err.Error(), tt.want) ||
			strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s of %v, convolution %v: %v, want %q", tt.key, tt.value, tt.tensor, err, tt.want)
		}
	}
}
