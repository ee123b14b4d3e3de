// Package speechtest makes the small model of speech of tests: it hears a second at a time.
package speechtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/convert"
)

// GGUF returns the file of a model with the settings of a checkpoint in dir, which is that of go/transcribe's testdata:
// weight gives element i of a tensor, of which the checkpoint has a scale and an offset.
func GGUF(dir, typ string, weight func(tensor string, i int, scale, offset float64) float64) ([]byte, error) {
	list, err := os.ReadFile(filepath.Join(dir, "tensors.txt"))
	if err != nil {
		return nil, err
	}
	header, data := map[string]any{}, []byte{}
	for line := range strings.Lines(string(list)) {
		words := strings.Fields(line)
		var numbers []float64
		for _, w := range words[1:] {
			x, err := strconv.ParseFloat(w, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", words[0], err)
			}
			numbers = append(numbers, x)
		}
		rank := len(numbers) - 2
		n, begin := 1, len(data)
		shape := []int{}
		for _, d := range numbers[:rank] {
			shape = append(shape, int(d))
			n *= int(d)
		}
		for i := range n {
			x := float32(weight(words[0], i, numbers[rank], numbers[rank+1]))
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
		header[words[0]] = map[string]any{"dtype": "F32", "shape": shape, "data_offsets": []int{begin, len(data)}}
	}
	head, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	made, err := os.MkdirTemp("", "speech")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(made)
	all := append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...)
	if err := os.WriteFile(filepath.Join(made, "model.safetensors"), append(all, data...), 0o600); err != nil {
		return nil, err
	}
	for _, name := range []string{"config.json", "generation_config.json", "tokenizer.json"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(made, name), b, 0o600); err != nil {
			return nil, err
		}
	}
	m, err := convert.Open(made, convert.Options{Type: typ, Threads: 1})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	var b bytes.Buffer
	_, err = m.Write(context.Background(), &b)
	return b.Bytes(), err
}

// Exclaims are weights of a model that says exclamation marks, whatever it hears.
func Exclaims(tensor string, i int, _, _ float64) float64 {
	if tensor == "model.decoder.layer_norm.bias" || tensor == "model.decoder.embed_tokens.weight" && i/64 == '!' {
		return 0.5
	}
	return 0
}

// WAV returns a file of so many samples, 16,000 a second, which are not silent.
func WAV(samples int) []byte {
	b := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00")
	b = binary.LittleEndian.AppendUint32(b, 16000)
	b = binary.LittleEndian.AppendUint32(b, 32000)
	b = append(b, "\x02\x00\x10\x00data"...)
	b = binary.LittleEndian.AppendUint32(b, uint32(2*samples))
	return append(b, strings.Repeat("\x00\x10", samples)...)
}
