package convert

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
)

// ofWhisperCpp returns a file of whisper.cpp with sizes of a small model of English: 32 wide, a layer on each side, 16
// bands. Number i of a tensor is i.
func ofWhisperCpp() []byte {
	const width, bands, text, size = 32, 16, 56, 51864
	var b []byte
	numbers := func(all ...int) {
		for _, n := range all {
			b = binary.LittleEndian.AppendUint32(b, uint32(n))
		}
	}
	word := func(w string) { numbers(len(w)); b = append(b, w...) }
	numbers(whisperMagic, size, 50, width, 2, 1, text, width, 2, 1, bands, 0, bands, 3)
	b = append(b, make([]byte, 4*bands*3)...)
	numbers(50256)
	for i := range 50256 {
		switch {
		case i < 256:
			word(string([]byte{byte(i)}))
		default:
			word(string([]byte{byte(i / 256), byte(i)}))
		}
	}
	tensor := func(name string, dims ...int) {
		numbers(len(dims), len(name), 0)
		numbers(dims...)
		b = append(b, name...)
		n := 1
		for _, d := range dims {
			n *= d
		}
		for i := range n {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(i)))
		}
	}
	both := func(name string, dims ...int) {
		tensor(name+".weight", dims...)
		tensor(name+".bias", dims[len(dims)-1])
	}
	tensor("encoder.conv1.weight", 3, bands, width)
	tensor("encoder.conv1.bias", 1, width)
	tensor("encoder.conv2.weight", 3, width, width)
	tensor("encoder.conv2.bias", 1, width)
	tensor("encoder.positional_embedding", width, 50)
	tensor("decoder.positional_embedding", width, text)
	tensor("decoder.token_embedding.weight", width, size)
	both("encoder.ln_post", width)
	both("decoder.ln", width)
	for _, side := range []string{"encoder", "decoder"} {
		blk := side + ".blocks.0."
		for _, part := range []string{"attn", "cross_attn"} {
			if side == "encoder" && part != "attn" {
				continue
			}
			both(blk+part+"_ln", width)
			for _, m := range []string{"query", "value", "out"} {
				both(blk+part+"."+m, width, width)
			}
			tensor(blk+part+".key.weight", width, width)
		}
		both(blk+"mlp_ln", width)
		both(blk+"mlp.0", width, 4*width)
		both(blk+"mlp.2", 4*width, width)
	}
	return b
}

// A file of whisper.cpp becomes a model whose tensors all have their names and shapes. Convolutions have the channels
// of each tap side by side.
func TestWhisperCpp(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, "ggml-tiny.en.bin", string(ofWhisperCpp()))
	from, to := filepath.Join(dir, "ggml-tiny.en.bin"), filepath.Join(dir, "out.gguf")
	if !IsWhisperCpp(from) {
		t.Error("it is not recognized")
	}
	m := must(OpenWhisperCpp(from))
	defer m.Close()
	must(m.WriteFile(t.Context(), to, false))
	f := must(model.OpenFile(to))
	defer f.Close()
	if _, err := model.NewSurvey(f, kernel.KVTypes{K: kernel.KVF16, V: kernel.KVF16}, 0); err != nil {
		t.Fatal(err)
	}
	cfg := must(f.Config())
	if cfg.NSide != 50 || cfg.NAnswer != 56 || cfg.Sound.Bands != 16 || cfg.Name != "tiny.en" {
		t.Errorf("%+v", cfg)
	}
	conv, _ := f.GGUF.Tensor("enc.conv1d.1.weight")
	for i, want := range map[int]float32{0: 0, 1: 3, 16: 1, 17: 4, 47: 47, 48: 48, 48 + 16: 49} {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(conv.Data[4*i:])); got != want {
			t.Errorf("number %d of a convolution is %g, want %g", i, got, want)
		}
	}
	names := must(f.GGUF.Strs("tokenizer.ggml.tokens"))
	for id, want := range map[int]string{50256: "<|endoftext|>", 50258: "<|en|>", 50356: "<|su|>", 50357: "<|translate|>",
		50362: "<|notimestamps|>", 50363: "<|0.00|>", 51863: "<|30.00|>"} {
		if names[id] != want {
			t.Errorf("token %d is %q, want %q", id, names[id], want)
		}
	}
}

// What is cut off or has wrong sizes is an error of one line.
func TestWhisperCppHostile(t *testing.T) {
	whole := ofWhisperCpp()
	dir := t.TempDir()
	open := func(b []byte, what string) {
		path := filepath.Join(dir, "x.bin")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := OpenWhisperCpp(path)
		if err == nil {
			m.Close()
			t.Errorf("%s: no error", what)
		} else if strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, n := range []int{0, 3, 4, 40, 48, 52, 60, 300, 500, 300_000, len(whole) - 5} {
		open(whole[:n], fmt.Sprintf("cut off after %d bytes", n))
	}
	for at := 4; at < 56; at += 4 {
		if at == 44 { // the type of most tensors, which each has too
			continue
		}
		for _, n := range []uint32{0, 1 << 31, 1<<31 - 1} {
			if at >= 48 && n == 0 { // bands that are not there
				continue
			}
			bad := append([]byte(nil), whole...)
			binary.LittleEndian.PutUint32(bad[at:], n)
			open(bad, fmt.Sprintf("%d at byte %d", n, at))
		}
	}
}
