package tokenizer

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// New reads the vocabulary that a file's metadata describes. The error names the invalid key, or lists the
// supported models and pre-tokenizers.
func New(m Metadata) (*Tokenizer, error) {
	r := &reader{m: m}
	kind := r.str("model", true)
	if kinds := []string{"llama", "gpt2", "gemma4", "bert", "t5", "rwkv", "plamo2", "whitespace"}; r.err == nil && !slices.Contains(kinds, kind) {
		return nil, fmt.Errorf("%smodel %q is not supported, supported are %s", prefix, kind, strings.Join(kinds, " "))
	}
	pre := r.str("pre", false)
	if kind == "gpt2" && slices.Contains(spelledWithSpaces, pre) {
		kind = "gemma4"
	}
	t := &Tokenizer{tokens: r.strs("tokens")}
	switch {
	case r.err != nil:
		return nil, r.err
	case len(t.tokens) == 0:
		return nil, fmt.Errorf("%stokens is empty", prefix)
	case len(t.tokens) > math.MaxInt32:
		return nil, fmt.Errorf("%stokens has %d entries, more than ids can count", prefix, len(t.tokens))
	}
	if t.readSpecial(r, kind); r.err != nil { // there need not be a type for each token
		return nil, r.err
	}
	t.typeEnds()
	t.hash = sync.OnceValue(t.hashOf)

	index, err := t.index()
	if err != nil {
		return nil, err
	}
	unk := t.unknown(r)
	switch kind {
	case "llama":
		t.model = newSPM(r, t, index, unk)
		t.spacePrefix, _ = r.flag("add_space_prefix", true)
		t.bos = t.byDefault(r, "bos_token_id", t.bos, 1)
		t.eos = t.byDefault(r, "eos_token_id", t.eos, 2)
		t.readAdditions(r, true, false)
	case "gemma4":
		t.model = newCharBPE(r, t, index, unk)
		t.spacePrefix, _ = r.flag("add_space_prefix", false)
		if pre == sarvam {
			t.readAdditions(r, false, false)
			break
		}
		t.readAdditions(r, true, false)
		t.addBOS = t.bos != none // though early files say otherwise
	case "whitespace":
		t.model = newLonelyBPE(r, t, index, unk)
		t.readAdditions(r, false, false)
	case "plamo2":
		t.model = newPLaMo2(r, t, index, unk)
		t.readAdditions(r, false, false)
	case "gpt2":
		pre := newPreTokenizer(r)
		t.model = newBPE(r, t, index, unk, pre)
		t.spacePrefix, _ = r.flag("add_space_prefix", false)
		t.readAdditions(r, pre.addBOS, false)
	case "bert":
		t.model = newWordPiece(r, index, unk)
		t.spacePrefix = true
		t.frame(r)
	case "t5":
		m := newUnigram(r, t, index, unk)
		t.model, t.spacePrefix = m, m.prefix
		t.eos = t.byDefault(r, "eos_token_id", t.eos, 1)
		t.readAdditions(r, false, true)
	case "rwkv":
		t.readAdditions(r, false, false)
	}
	t.findEOG(r)
	if r.err != nil {
		return nil, r.err
	}
	if err := t.spell(kind); err != nil {
		return nil, err
	}
	if kind == "rwkv" {
		if t.model = newRWKV(r, t, unk); r.err != nil {
			return nil, r.err
		}
	}
	t.controls = newSpecials(t, Control, Unknown, UserDefined)
	t.defined = newSpecials(t, UserDefined)
	t.findStripped(m)
	t.bound()
	t.scratch = make(chan *scratch, runtime.GOMAXPROCS(0))
	return t, nil
}

// bound finds how many bytes of text an id stands for at most.
func (t *Tokenizer) bound() {
	t.longest = t.model.perID()
	if t.longest == 0 || len(t.stripped) > 0 {
		t.longest = 0
		return
	}
	for text := range t.controls.ids {
		t.longest = max(t.longest, len(text))
	}
}

// sarvam is the pre-tokenizer of Sarvam's models.
const sarvam = "sarvam-moe"

// spelledWithSpaces lists pre-tokenizers of vocabularies that claim to be byte-level but are spelled like
// Gemma 4's.
var spelledWithSpaces = []string{"gemma4", "granite-embed-multi-311m", sarvam}

// readSpecial reads the types of tokens, BOS and EOS.
func (t *Tokenizer) readSpecial(r *reader, kind string) {
	t.bos = r.id("bos_token_id", len(t.tokens))
	t.eos = r.id("eos_token_id", len(t.tokens))
	t.types = r.types("token_type", len(t.tokens))
	if t.types != nil {
		return
	}
	// Early files have no types; they are derived from the spelling.
	t.types = make([]TokenType, len(t.tokens))
	for i, text := range t.tokens {
		id := int32(i)
		_, isByte := byteToken(text)
		switch {
		case kind != "gpt2" && isByte:
			t.types[i] = Byte
		case kind != "gpt2" && text == "<unk>":
			t.types[i] = Unknown
		case id == t.bos || id == t.eos || kind == "llama" && (text == "<s>" || text == "</s>"):
			t.types[i] = Control
		default:
			t.types[i] = Normal
		}
	}
}

// index maps the texts that merging may produce to ids. It omits control tokens, since plain text must never
// become one, and user-defined tokens, which are found before merging.
func (t *Tokenizer) index() (map[string]int32, error) {
	index := make(map[string]int32, len(t.tokens))
	special := map[string]int32{}
	for i, text := range t.tokens {
		id := int32(i)
		if text == "" {
			continue
		}
		if len(text) > maxToken {
			return nil, fmt.Errorf("%stokens[%d] has %d bytes, want at most %d", prefix, id, len(text), maxToken)
		}
		first, twice := index[text]
		if !twice {
			first, twice = special[text]
		}
		if twice {
			return nil, fmt.Errorf("%stokens has %q twice, as %d and %d", prefix, text, first, id)
		}
		if t.types[i] == Normal {
			index[text] = id
		} else {
			special[text] = id
		}
	}
	return index, nil
}

// unknown returns the unknown token: the one that the file names, or the first of that type.
func (t *Tokenizer) unknown(r *reader) int32 {
	if id := r.id("unknown_token_id", len(t.tokens)); id != none {
		return id
	}
	return int32(slices.Index(t.types, Unknown)) // -1 is none
}

// byDefault returns the id of a special token in early SentencePiece models, for files that do not name it.
func (t *Tokenizer) byDefault(r *reader, key string, id, early int32) int32 {
	if _, named := r.value(key, false); named || id != none {
		return id
	}
	if t.TokenType(early) == Control {
		return early
	}
	return none
}

// frame finds the tokens that BERT adds around every text, [CLS] and [SEP]: by their own keys, by the keys of
// BOS and EOS, or at their positions in the first vocabulary.
func (t *Tokenizer) frame(r *reader) {
	if t.bos == none {
		t.bos = t.byDefault(r, "cls_token_id", r.id("cls_token_id", len(t.tokens)), 101)
	}
	if sep := r.id("seperator_token_id", len(t.tokens)); sep != none {
		t.eos = sep
	}
	t.eos = t.byDefault(r, "seperator_token_id", t.eos, 102)
	t.addBOS, t.addEOS = t.bos != none, t.eos != none
}

// readAdditions reads which tokens Encode adds to a text.
func (t *Tokenizer) readAdditions(r *reader, addBOS, addEOS bool) {
	bos, asked := r.flag("add_bos_token", addBOS)
	if bos && asked && t.bos == none {
		r.fail("%sadd_bos_token is true, but %sbos_token_id is not set", prefix, prefix)
	}
	eos, asked := r.flag("add_eos_token", addEOS)
	if eos && asked && t.eos == none {
		r.fail("%sadd_eos_token is true, but %seos_token_id is not set", prefix, prefix)
	}
	t.addBOS = bos && t.bos != none
	t.addEOS = eos && t.eos != none
	t.afterBOS, t.afterEOS = r.ownIDs("after_bos", t.types), r.ownIDs("after_eos", t.types)
}

// spell computes the bytes of each token.
func (t *Tokenizer) spell(kind string) error {
	t.ends = make([]uint32, len(t.tokens))
	for i, text := range t.tokens {
		switch typ := t.types[i]; {
		case typ == Unused:
		case typ == Byte:
			b, ok := byteToken(text)
			if !ok {
				return fmt.Errorf("%stokens[%d] is %q, but its type says that it is a byte such as <0x0A>", prefix, i, text)
			}
			t.pieces = append(t.pieces, b)
		case typ != Normal:
			t.pieces = append(t.pieces, text...)
		case kind == "gpt2":
			t.pieces = appendBytesOf(t.pieces, text)
		case kind == "rwkv":
			var err error
			if t.pieces, err = appendUnescaped(t.pieces, text); err != nil {
				return fmt.Errorf("%stokens[%d]: %w", prefix, i, err)
			}
		default:
			t.pieces = append(t.pieces, strings.ReplaceAll(text, escapedSpace, " ")...)
		}
		if len(t.pieces) > math.MaxUint32 {
			return fmt.Errorf("%stokens is more than 4 GiB of text", prefix)
		}
		t.ends[i] = uint32(len(t.pieces))
	}
	return nil
}

// byteToken parses the name of a byte token, <0x00> to <0xFF>.
func byteToken(text string) (byte, bool) {
	if len(text) != 6 || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(text[3:5], 16, 8)
	return byte(b), err == nil
}
