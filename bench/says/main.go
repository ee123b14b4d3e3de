// Command says makes a model that says JSON without end out of one with random weights: of the same shape, so that a pass takes as
// long, with a real vocabulary. What it says does not depend on a schema that allows it, so requests with one and without do the same work.
//
//	go run ./bench/says --vocab ggml-vocab-llama-bpe.gguf -o records.gguf llama-3.2-1b-Q4_K_M.gguf
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/tokenizer"
)

// Prompt is the prompt after which a model says its text.
const Prompt = "JSON:"

// texts are what models say: a beginning and what follows it again and again. No token may come twice in one, unless the same follows it.
var texts = map[string][2]string{
	"records": {`[`, `{"name":"Alice from that little town near our river","age":31,"notes":["likes old music but never sleeps before midnight"]},`},
	"strings": {`["`, `every morning she walks along this road to see what ships have come overnight","`},
}

func main() {
	vocab := flag.String("vocab", "", "GGUF file whose tokenizer the model gets; default: its own")
	text := flag.String("text", "records", "what it says: records or strings")
	out := flag.String("o", "", "file to write")
	flag.Parse()
	if err := run(flag.Args(), *vocab, *text, *out); err != nil {
		fmt.Fprintln(os.Stderr, "says:", err)
		os.Exit(1)
	}
}

func run(args []string, vocab, name, out string) error {
	text, known := texts[name]
	switch {
	case len(args) != 1 || out == "":
		return errors.New("want a model, and with -o a file to write")
	case !known:
		return fmt.Errorf("--text %s: want records or strings", name)
	}
	model, err := open(args[0])
	if err != nil {
		return err
	}
	names := model
	if vocab != "" {
		if names, err = open(vocab); err != nil {
			return err
		}
	}
	next, err := script(names, text)
	if err != nil {
		return err
	}
	w, err := says(model, names, next)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	if _, err = w.WriteTo(file); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// open maps a file, which stays until the program ends.
func open(path string) (*gguf.File, error) {
	r, err := mem.Map(path)
	if err != nil {
		return nil, err
	}
	f, err := gguf.Parse(r.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// script returns which token follows which.
func script(f *gguf.File, text [2]string) (map[int32]int32, error) {
	tok, err := tokenizer.New(f)
	if err != nil {
		return nil, err
	}
	next := map[int32]int32{}
	ids := func(text string) []int32 { return tok.Encode(text, tokenizer.Options{NoSpecial: true}) }
	from := ids(Prompt)
	last := from[len(from)-1]
	all := ids(text[0] + strings.Repeat(text[1], 3))
	for _, id := range all[:len(all)-2] { // the last ones would be others with more behind them
		if to, ok := next[last]; ok && to != id {
			return nil, fmt.Errorf("%q is followed by %q and by %q", tok.Piece(last, false), tok.Piece(to, false), tok.Piece(id, false))
		}
		next[last] = id
		last = id
	}
	return next, nil
}

// Numbers are written in Q8_0 with scales that are powers of two: 8 bits of them, as steps of 2^-down.
const (
	blockElems = 32
	likeliest  = 40   // the logit of the token that follows
	spread     = 0.06 // what the rows of others have at most, so that their logits are some units around 0
)

// q8 appends a row as blocks of Q8_0.
func q8(to []byte, row []float32, down int) []byte {
	for ; len(row) > 0; row = row[blockElems:] {
		to = binary.LittleEndian.AppendUint16(to, uint16(15-down)<<10) // 2^-down as a float16
		for _, v := range row[:blockElems] {
			to = append(to, byte(int8(math.Round(math.Ldexp(float64(v), down)))))
		}
	}
	return to
}

// code adds the code of a token, ones and minus ones, times a number.
func code(id int32, to []float32, times float32) {
	r := rand.New(rand.NewPCG(uint64(id), 1))
	for i := 0; i < len(to); i += 64 {
		for k, bits := 0, r.Uint64(); k < 64; k, bits = k+1, bits>>1 {
			to[i+k] += times * float32(1-2*int(bits&1))
		}
	}
}

// says returns the file of a model that says what follows what: its layers add nothing, a token's embedding is its code, and the output
// has that in the row of the token that follows.
func says(model, names *gguf.File, next map[int32]int32) (*gguf.Writer, error) {
	table, ok := model.Tensor("token_embd.weight")
	if !ok || len(table.Dims) != 2 || table.Dims[0]%64 != 0 {
		return nil, errors.New("no token_embd.weight in rows of whole blocks")
	}
	tokens, err := names.Strs("tokenizer.ggml.tokens")
	if err != nil {
		return nil, err
	}
	if uint64(len(tokens)) != table.Dims[1] {
		return nil, fmt.Errorf("%d tokens in the vocabulary, %d in the model", len(tokens), table.Dims[1])
	}
	before := map[int32][]int32{}
	for from, to := range next {
		before[to] = append(before[to], from)
	}
	w := gguf.NewWriter()
	for _, kv := range model.KVs {
		if !strings.HasPrefix(kv.Key, "tokenizer.") {
			w.Set(kv.Key, kv.Value)
		}
	}
	for _, kv := range names.KVs {
		if strings.HasPrefix(kv.Key, "tokenizer.") {
			w.Set(kv.Key, kv.Value)
		}
	}
	width := int(table.Dims[0])
	rows := func(name string, down int, row func(id int32, to []float32)) {
		w.AddTensor(name, gguf.Q8_0, table.Dims, func(w io.Writer) error {
			b, values, block := bufio.NewWriterSize(w, 1<<20), make([]float32, width), []byte(nil)
			for id := range tokens {
				clear(values)
				row(int32(id), values)
				block = q8(block[:0], values, down)
				if _, err := b.Write(block); err != nil {
					return err
				}
			}
			return b.Flush()
		})
	}
	rows("token_embd.weight", 6, func(id int32, to []float32) { code(id, to, 1) })
	rows("output.weight", 11, func(id int32, to []float32) {
		for _, from := range before[id] {
			code(from, to, likeliest/float32(width))
		}
		if len(before[id]) == 0 {
			r := rand.New(rand.NewPCG(uint64(id), 2))
			for i := range to {
				to[i] = (2*r.Float32() - 1) * spread
			}
		}
	})
	for _, t := range model.Tensors {
		data := t.Data
		switch {
		case t.Name == "token_embd.weight" || t.Name == "output.weight":
			continue
		case strings.HasSuffix(t.Name, ".attn_output.weight") || strings.HasSuffix(t.Name, ".ffn_down.weight"):
			data = make([]byte, len(t.Data)) // zeros, in every type
		case t.Name == "output_norm.weight":
			if data, err = binary.Append(nil, binary.LittleEndian, slices.Repeat([]float32{1}, width)); err != nil {
				return nil, err
			}
		}
		w.AddTensor(t.Name, t.Type, t.Dims, gguf.Bytes(data))
	}
	return w, nil
}
