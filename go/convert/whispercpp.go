package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/quern-llm/quern/go/convert/vocab"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/tokenizer"
	"github.com/quern-llm/quern/go/transcribe"
)

// whisperMagic begins the files of whisper.cpp, whose names are ggml-*.bin.
const whisperMagic = 0x67676d6c

// IsWhisperCpp reports whether a file begins as those of whisper.cpp do.
func IsWhisperCpp(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic uint32
	return binary.Read(f, binary.LittleEndian, &magic) == nil && magic == whisperMagic
}

// A WhisperCpp is a file of whisper.cpp: sizes, the bands of its spectrum, tokens without merges, and tensors in the
// types that GGUF has too.
type WhisperCpp struct {
	path   string
	region *mem.Region
	w      *gguf.Writer
	size   uint64
	list   []func(visit func(name string, typ gguf.Type, dims []uint64))
}

// whisperSizes are the numbers behind the magic, in their order.
type whisperSizes struct {
	Vocab, AudioCtx, AudioState, AudioHead, AudioLayer, TextCtx, TextState, TextHead, TextLayer, Mels, Type int32
}

// OpenWhisperCpp reads a file of whisper.cpp. Weights keep their types.
func OpenWhisperCpp(path string) (*WhisperCpp, error) {
	region, err := mem.Map(path)
	if err != nil {
		return nil, err
	}
	m := &WhisperCpp{path: path, region: region, w: gguf.NewWriter()}
	if err := m.read(region.Bytes()); err != nil {
		region.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

var errCutOff = errors.New("it is cut off")

// A binReader reads what a file has in sequence. After an error it reads zeros.
type binReader struct {
	rest []byte
	err  error
}

func (r *binReader) take(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.rest)) {
		r.err = errCutOff
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *binReader) number() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.LittleEndian.Uint32(b))
	}
	return 0
}

func (m *WhisperCpp) read(data []byte) error {
	r := &binReader{rest: data}
	if uint32(r.number()) != whisperMagic {
		return errors.New("it is no file of whisper.cpp")
	}
	var s whisperSizes
	if err := binary.Read(bytes.NewReader(r.take(uint64(binary.Size(s)))), binary.LittleEndian, &s); err != nil {
		return errCutOff
	}
	for _, n := range []int32{s.Vocab, s.AudioCtx, s.AudioState, s.AudioHead, s.AudioLayer, s.TextCtx, s.TextState,
		s.TextHead, s.TextLayer, s.Mels} {
		if n < 1 || n > 1<<20 {
			return fmt.Errorf("a size of %d, want 1 to %d", n, 1<<20)
		}
	}
	if s.AudioState != s.TextState || s.AudioHead != s.TextHead {
		return fmt.Errorf("an encoder %d wide with %d heads and a decoder %d wide with %d, want the same", s.AudioState,
			s.AudioHead, s.TextState, s.TextHead)
	}
	if bands, bins := r.number(), r.number(); bands < 0 || bins < 0 {
		return errors.New("its bands have sizes below 0")
	} else { // they follow from their number
		r.take(4 * uint64(bands) * uint64(bins))
	}
	m.keys(s)
	if err := m.vocabulary(r, int(s.Vocab)); err != nil {
		return err
	}
	for len(r.rest) > 0 && r.err == nil {
		if err := m.tensor(r); err != nil {
			return err
		}
	}
	return r.err
}

func (m *WhisperCpp) keys(s whisperSizes) {
	m.w.Set("general.architecture", "whisper")
	m.w.Set("general.name", m.Name())
	for _, k := range []struct {
		name string
		n    int32
	}{
		{"block_count", s.AudioLayer}, {"decoder_block_count", s.TextLayer}, {"embedding_length", s.TextState},
		{"feed_forward_length", 4 * s.TextState}, {"attention.head_count", s.TextHead}, {"context_length", s.TextCtx},
		{"encoder.context_length", s.AudioCtx}, {"num_mel_bins", s.Mels},
	} {
		m.w.Set("whisper."+k.name, uint32(k.n))
	}
	m.w.Set("whisper.attention.layer_norm_epsilon", float32(1e-5))
	if heads := s.heads(); heads != nil {
		m.w.Set("quern.alignment_heads", heads)
	}
}

// englishVocab is the tokens of a vocabulary of English alone.
const englishVocab = 51864

// vocabulary reads the tokens of text. Those behind them follow from the size: they are of structure, languages and
// times.
func (m *WhisperCpp) vocabulary(r *binReader, size int) error {
	const (
		english      = englishVocab
		multilingual = 51865 // and of all languages: one for text more, and maybe more languages
	)
	if size < english || size > multilingual+1 {
		return fmt.Errorf("a vocabulary of %d tokens, want %d to %d", size, english, multilingual+1)
	}
	text, codes := 50256, transcribe.LanguageCodes()
	if size >= multilingual {
		text++
	}
	if n := r.number(); int(n) < text || int(n) > size {
		return fmt.Errorf("%d tokens of text, want %d", n, text)
	} else {
		var words []string
		for i := range int(n) {
			const longest = 1 << 10
			length := r.number()
			if length < 0 || length > longest {
				return fmt.Errorf("token %d has %d bytes, want at most %d", i, length, longest)
			}
			if word := r.take(uint64(length)); i < text {
				words = append(words, string(word))
			}
		}
		if r.err != nil {
			return r.err
		}
		v, err := vocab.Ranked(words, "gpt-2", size)
		if err != nil {
			return err
		}
		times := size - 1501
		special := []string{"<|endoftext|>", "<|startoftranscript|>"}
		for _, code := range codes[:times-text-8] {
			special = append(special, "<|"+code+"|>")
		}
		special = append(special, "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>",
			"<|notimestamps|>")
		for i := range size - times {
			special = append(special, fmt.Sprintf("<|%d.%02d|>", 2*i/100, 2*i%100))
		}
		v.Append(special)
		v.ReplaceSpecial("bos", text)
		v.ReplaceSpecial("eos", text)
		v.SetAdd("bos", false)
		v.SetAdd("eos", false)
		for _, kv := range v.Keys() {
			m.w.Set(kv.Key, kv.Value)
		}
	}
	outline, err := m.w.Outline()
	if err != nil {
		return err
	}
	tok, err := tokenizer.New(outline)
	if err != nil {
		return err
	}
	m.w.Set("tokenizer.ggml.suppress_tokens", transcribe.NeverSaid(tok))
	return nil
}

// whisperNames are what parts of names become, in this order.
var whisperNames = strings.NewReplacer(
	"encoder.positional_embedding", "enc.position_embd.weight", "decoder.positional_embedding", "dec.position_embd.weight",
	"decoder.token_embedding", "token_embd", "encoder.ln_post", "enc.output_norm", "decoder.ln.", "dec.output_norm.",
	"encoder.conv1", "enc.conv1d.1", "encoder.conv2", "enc.conv1d.2",
	"encoder.blocks", "enc.blk", "decoder.blocks", "dec.blk", "cross_attn_ln", "cross_attn_norm", "attn_ln", "attn_norm",
	"mlp_ln", "ffn_norm", "mlp.0", "ffn_up", "mlp.2", "ffn_down", "attn.query", "attn_q", "attn.key", "attn_k",
	"attn.value", "attn_v", "attn.out", "attn_o",
)

func (m *WhisperCpp) tensor(r *binReader) error {
	rank, length, typ := r.number(), r.number(), gguf.Type(r.number())
	if r.err == nil && (rank < 1 || rank > 3 || length < 1 || length > gguf.MaxNameBytes) {
		return fmt.Errorf("a tensor of %d dimensions with a name of %d bytes", rank, length)
	}
	var dims []uint64
	for range rank {
		n := r.number()
		if r.err == nil && n < 1 {
			return fmt.Errorf("a tensor with a dimension of %d", n)
		}
		dims = append(dims, uint64(n))
	}
	old := string(r.take(uint64(length)))
	if r.err != nil {
		return r.err
	}
	size, err := typ.Size(dims)
	if err != nil {
		return fmt.Errorf("tensor %.60q: %w", old, err)
	}
	data := r.take(size)
	if data == nil {
		return fmt.Errorf("tensor %.60q: %w", old, r.err)
	}
	name, write := whisperNames.Replace(old), gguf.Bytes(data)
	switch {
	case rank == 3: // a convolution: the channels of each tap side by side
		each := size / (dims[0] * dims[1] * dims[2])
		if typ != gguf.F16 && typ != gguf.F32 {
			return fmt.Errorf("tensor %.60q is a convolution in %v, want F16 or F32", old, typ)
		}
		taps, in := dims[0], dims[1]
		dims = []uint64{taps * in, dims[2]}
		write = func(w io.Writer) error { return writeTaps(w, data, taps, in, each) }
	case rank == 2 && dims[0] == 1: // a bias of one
		dims = dims[1:]
	}
	m.size += size
	m.list = append(m.list, func(visit func(string, gguf.Type, []uint64)) { visit(name, typ, dims) })
	m.w.AddTensor(name, typ, dims, write)
	return nil
}

// writeTaps writes the weights of a convolution, [out][in][taps], as [out][taps][in].
func writeTaps(w io.Writer, data []byte, taps, in, each uint64) error {
	row := make([]byte, taps*in*each)
	for len(data) > 0 {
		for tap := range taps {
			for i := range in {
				copy(row[(tap*in+i)*each:][:each], data[(i*taps+tap)*each:])
			}
		}
		if _, err := w.Write(row); err != nil {
			return err
		}
		data = data[len(row):]
	}
	return nil
}

// Name is that of the file without its ending.
func (m *WhisperCpp) Name() string {
	base := filepath.Base(m.path)
	return strings.TrimSuffix(strings.TrimPrefix(base, "ggml-"), filepath.Ext(base))
}

// Size returns the number of bytes of all tensors.
func (m *WhisperCpp) Size() uint64 { return m.size }

// Tensors visits the tensors.
func (m *WhisperCpp) Tensors(visit func(name string, typ gguf.Type, dims []uint64)) {
	for _, t := range m.list {
		t(visit)
	}
}

// Write writes the model.
func (m *WhisperCpp) Write(_ context.Context, w io.Writer) (int64, error) { return m.w.WriteTo(w) }

// WriteFile writes the model to path, atomically; see newfile.Write.
func (m *WhisperCpp) WriteFile(_ context.Context, path string, replace bool) (int64, error) {
	need, err := m.w.Size()
	if err != nil {
		return 0, err
	}
	return newfile.Write(path, replace, 0o644, need, m.w.WriteTo)
}

// Close ends the use of the file.
func (m *WhisperCpp) Close() error { return m.region.Close() }
