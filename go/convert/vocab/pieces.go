package vocab

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/safetensors"
)

// A pieceModel is the part of a SentencePiece model that is used.
type pieceModel struct {
	kind   uint64 // 1: Unigram, 2: BPE
	pieces []spelled
	// How text is normalized.
	charsmap    []byte
	dummyPrefix bool
	oneSpace    bool
}

type spelled struct {
	text  string
	score float32
	typ   uint64
}

var errPieces = errors.New("not a SentencePiece model")

// fields visits the fields of a message of protocol buffers that are numbers or bytes.
func fields(b []byte, number func(n protowire.Number, v uint64), text func(n protowire.Number, v []byte) error) error {
	for len(b) > 0 {
		n, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return errPieces
		}
		b = b[size:]
		switch typ {
		case protowire.VarintType:
			v, size := protowire.ConsumeVarint(b)
			if size < 0 {
				return errPieces
			}
			number(n, v)
			b = b[size:]
		case protowire.Fixed32Type:
			v, size := protowire.ConsumeFixed32(b)
			if size < 0 {
				return errPieces
			}
			number(n, uint64(v))
			b = b[size:]
		case protowire.BytesType:
			v, size := protowire.ConsumeBytes(b)
			if size < 0 {
				return errPieces
			}
			if err := text(n, v); err != nil {
				return err
			}
			b = b[size:]
		default:
			size := protowire.ConsumeFieldValue(n, typ, b)
			if size < 0 {
				return errPieces
			}
			b = b[size:]
		}
	}
	return nil
}

// parsePieces reads a SentencePiece model.
func parsePieces(b []byte) (*pieceModel, error) {
	m := &pieceModel{kind: 1, dummyPrefix: true, oneSpace: true}
	none := func(protowire.Number, uint64) {}
	noText := func(protowire.Number, []byte) error { return nil }
	err := fields(b, none, func(n protowire.Number, v []byte) error {
		switch n {
		case 1:
			p := spelled{typ: 1}
			if len(m.pieces) == MaxTokens {
				return fmt.Errorf("more than %d tokens", MaxTokens)
			}
			err := fields(v, func(n protowire.Number, v uint64) {
				switch n {
				case 2:
					p.score = math.Float32frombits(uint32(v))
				case 3:
					p.typ = v
				}
			}, func(n protowire.Number, v []byte) error {
				if n == 1 {
					p.text = string(v)
				}
				return nil
			})
			m.pieces = append(m.pieces, p)
			return err
		case 2:
			return fields(v, func(n protowire.Number, v uint64) {
				if n == 3 {
					m.kind = v
				}
			}, noText)
		case 3:
			return fields(v, func(n protowire.Number, v uint64) {
				switch n {
				case 3:
					m.dummyPrefix = v != 0
				case 4:
					m.oneSpace = v != 0
				}
			}, func(n protowire.Number, v []byte) error {
				if n == 2 {
					m.charsmap = bytes.Clone(v)
				}
				return nil
			})
		}
		return nil
	})
	if err == nil && len(m.pieces) == 0 {
		err = errPieces
	}
	return m, err
}

// A pieceOrder says how the pieces of a SentencePiece model become tokens.
type pieceOrder int

const (
	plainPieces     pieceOrder = iota // in this order, with scores
	piecesOfT5                        // in this order, as Unigram if the model is
	piecesOfXLMR                      // as Unigram, with the first tokens in another order
	piecesOfMBART                     // the same, and languages at the end
	piecesOfPegasus                   // as Unigram, behind tokens of the model's own
)

// readPieces reads a SentencePiece model.
func (v *Vocabulary) readPieces(path string, order pieceOrder) error {
	text, err := safetensors.ReadText(path)
	if err != nil {
		return err
	}
	m, err := parsePieces(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	v.Model, v.pre, v.scores = "llama", "default", []float32{}
	const unigram = 1
	if order > piecesOfT5 && m.kind != unigram {
		return fmt.Errorf("%s: a model of the kind %d, want Unigram", path, m.kind)
	}
	if order != plainPieces && m.kind == unigram {
		v.unigram(m.dummyPrefix, m.oneSpace, m.charsmap)
	}
	switch order {
	case piecesOfMBART:
		m.pieces = v.ofMBART(m.pieces)
	case piecesOfPegasus:
		m.pieces = ofPegasus(m.pieces)
	case piecesOfXLMR:
		first := []spelled{{"<s>", 0, 3}, {"<pad>", 0, 3}, {"</s>", 0, 3}, {"<unk>", 0, 2}}
		m.pieces = append(first, m.pieces[min(3, len(m.pieces)):]...)
		m.pieces = append(m.pieces, spelled{"<mask>", 0, 3})
	}
	for i, p := range m.pieces {
		typ := normal
		switch p.typ {
		case 2:
			typ = unknown
		case 3:
			typ = Control
		case 4:
			typ = UserDefined
		case 5:
			typ = unused
		case 6:
			typ = byteToken
		}
		if err := v.put(i, p.text, typ, p.score); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// readExtended reads a SentencePiece model, and the tokens that a checkpoint adds after it: in added_tokens.json, as
// older checkpoints do, or in tokenizer.json.
func (v *Vocabulary) readExtended(dir, name string, order pieceOrder, f *tokenizerFile) error {
	if err := v.readPieces(filepath.Join(dir, name), order); err != nil {
		return err
	}
	var older map[string]any
	path := filepath.Join(dir, "added_tokens.json")
	if err := hf.ReadJSON(path, &older); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var list []addedToken
	for _, text := range slices.Sorted(maps.Keys(older)) {
		id, ok := hf.AsCount(older[text])
		if !ok {
			return fmt.Errorf("%s: the number of %.40q is %.40v", path, text, older[text])
		}
		list = append(list, addedToken{ID: id, Content: text})
	}
	if f != nil {
		list = append(list, f.Added...)
	}
	pieces := len(v.Tokens)
	for _, a := range list {
		if a.ID < pieces || !v.has(a.ID) {
			continue
		}
		text, typ := added(a.Content, a.Special)
		if err := v.put(a.ID, text, typ, -1000); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// readDeBERTa reads the SentencePiece model of DeBERTa 2 and 3, behind which is a token for what is masked.
func (v *Vocabulary) readDeBERTa(dir string, f *tokenizerFile) error {
	const name, mask = "spm.model", "[MASK]"
	if err := v.readExtended(dir, name, piecesOfT5, f); err != nil || slices.Contains(v.Tokens, mask) ||
		!v.has(len(v.Tokens)) {
		return err
	}
	return v.put(len(v.Tokens), mask, Control, 0)
}

// unigram makes the vocabulary one of Unigram, and sets how text is normalized.
func (v *Vocabulary) unigram(prefix, oneSpace bool, charsmap []byte) {
	v.Model = "t5"
	v.more = append(v.more, gguf.KV{Key: "add_space_prefix", Value: prefix},
		gguf.KV{Key: "remove_extra_whitespaces", Value: oneSpace})
	if len(charsmap) > 0 {
		v.more = append(v.more, gguf.KV{Key: "precompiled_charsmap", Value: charsmap})
	}
}

// linesAndRuns is how transformers 5 makes one space of a run of them, and of a tab or the end of a line.
const linesAndRuns = `\s{2,}|[\n\r\t]`

// lines are the characters of ASCII that are white space beside the space.
const lines = "\t\n\v\f\r"

// whiteSpace is what parts words in tokenizers that split by white space.
const whiteSpace = lines + "\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"

// spacesFor returns SentencePiece's map of characters for those that become spaces: a double array, and the text that they
// become. The children of each unit are in a block of 256 of its own, that for byte b at the b-th place; all that end a
// character have the same child, the unit at place 0 of a last block, which has the place of the text.
func spacesFor(chars string) []byte {
	const block, ends, offset = 256, 1 << 8, 10
	at := map[string]uint32{"": 0} // the block of the children of what begins a character
	var begun, whole []string
	for _, r := range chars {
		text := string(r)
		for n := 1; n < len(text); n++ {
			if _, ok := at[text[:n]]; !ok {
				at[text[:n]] = uint32(len(at)) * block
				begun = append(begun, text[:n])
			}
		}
		whole = append(whole, text)
	}
	last := uint32(len(at)) * block
	units := make([]uint32, last+1)
	put := func(text string, children, flags uint32) {
		n := len(text) - 1
		unit := at[text[:n]] + uint32(text[n])
		units[unit] = uint32(text[n]) | flags | (unit^children)<<offset
	}
	for _, text := range begun {
		put(text, at[text], 0)
	}
	for _, text := range whole {
		put(text, last, ends)
	}
	units[last] = 1 << 31
	b := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		b = binary.LittleEndian.AppendUint32(b, u)
	}
	return append(b, " \x00"...)
}

// readUnigram reads the Unigram model of tokenizer.json.
func (v *Vocabulary) readUnigram(f *tokenizerFile) error {
	list, ok := f.Model.Vocab.([]any)
	if !ok {
		return errors.New("model.vocab is not a list of tokens and scores")
	}
	v.pre, v.scores = "default", []float32{}
	unk, hasUnk := hf.AsCount(f.Model.Unknown)
	for i, entry := range list {
		pair, _ := entry.([]any)
		if len(pair) != 2 {
			return fmt.Errorf("model.vocab[%d] is %.40v, want a token and its score", i, entry)
		}
		text, isText := pair[0].(string)
		score, isScore := pair[1].(float64)
		if !isText || !isScore {
			return fmt.Errorf("model.vocab[%d] is %.40v, want a token and its score", i, entry)
		}
		typ := normal
		if hasUnk && i == unk {
			typ = unknown
		} else if f.Model.ByteFallback && isByte(text) {
			typ = byteToken
		}
		if err := v.put(i, text, typ, float32(score)); err != nil {
			return err
		}
	}
	for _, a := range f.Added {
		text, typ := added(a.Content, a.Special)
		if !v.has(a.ID) || a.ID < len(v.Types) && v.Types[a.ID] == unknown {
			continue
		}
		score := float32(0)
		if a.ID < len(v.scores) {
			score = v.scores[a.ID]
		}
		if err := v.put(a.ID, text, typ, score); err != nil {
			return err
		}
	}
	var charsmap []byte
	single, keepsLast := true, true // runs of spaces are one, and so is one at the end of a text
	each(f.Normalizer, "normalizers", func(n map[string]any) {
		if s, ok := n["precompiled_charsmap"].(string); ok {
			charsmap, _ = base64.StdEncoding.DecodeString(s)
		}
		p, _ := n["pattern"].(map[string]any)
		regex, _ := p["Regex"].(string)
		if regex == linesAndRuns && n["content"] == " " && charsmap == nil {
			charsmap = spacesFor(lines)
		}
		if n["type"] == "Prepend" { // as Helium's, which has nothing for runs
			single, keepsLast = false, false
		}
		if right, _ := n["strip_right"].(bool); right {
			keepsLast = false
		}
		if n["type"] == "NFC" {
			v.Set("quern.tokenizer.nfc", true)
		}
	})
	prefix := true
	each(f.PreTokenizer, "pretokenizers", func(n map[string]any) {
		if n["type"] == "WhitespaceSplit" {
			keepsLast = false
			if charsmap == nil {
				charsmap = spacesFor(whiteSpace)
			}
		}
		if b, ok := n["add_prefix_space"].(bool); ok {
			prefix = b
		}
		if s, ok := n["prepend_scheme"].(string); ok {
			prefix = s != "never"
		}
	})
	if keepsLast {
		v.Set("quern.tokenizer.keep_last_space", true)
	}
	if f.Model.ByteFallback {
		v.Set("quern.tokenizer.byte_fallback", true)
	}
	v.unigram(prefix, single, charsmap)
	return nil
}

// readWordPiece reads BERT's tokens. GGUF marks the first part of a word, checkpoints mark all others.
func (v *Vocabulary) readWordPiece(f *tokenizerFile) error {
	v.Model, v.pre = "bert", "default"
	if err := v.fill(f); err != nil {
		return err
	}
	mark := f.Model.Prefix
	if mark == "" {
		mark = "##"
	}
	v.marked(mark)
	each(f.Normalizer, "normalizers", func(n map[string]any) {
		if n["type"] == "BertNormalizer" {
			lower, ok := n["lowercase"].(bool)
			v.more = append(v.more, gguf.KV{Key: "normalizer.lowercase", Value: lower || !ok})
			if strip, ok := n["strip_accents"].(bool); ok {
				v.more = append(v.more, gguf.KV{Key: "normalizer.strip_accents", Value: strip})
			}
		}
	})
	return nil
}

func (v *Vocabulary) marked(mark string) {
	for i, text := range v.Tokens {
		if v.Types[i] == Control || strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
			continue
		}
		if rest, ok := strings.CutPrefix(text, mark); ok {
			v.Tokens[i] = rest
		} else {
			v.Tokens[i] = "▁" + text
		}
	}
}

// readWords reads the vocab.txt of WordPiece, with a token on each line.
func (v *Vocabulary) readWords(path string) error {
	text, err := safetensors.ReadText(path)
	if err != nil {
		return err
	}
	v.Model, v.pre = "bert", "default"
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		line = strings.TrimSuffix(line, "\r")
		typ := normal
		switch line {
		case "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]":
			typ = Control
		}
		if err := v.put(i, line, typ, 0); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	v.marked("##")
	return nil
}

// each visits a part of tokenizer.json, or all of its parts if it is a sequence.
func each(part map[string]any, list string, visit func(map[string]any)) {
	parts, ok := part[list].([]any)
	if !ok {
		if part != nil {
			visit(part)
		}
		return
	}
	for _, p := range parts {
		if m, ok := p.(map[string]any); ok {
			each(m, list, visit)
		}
	}
}
