// Package vocab reads the tokenizer of a checkpoint, and returns the keys that a GGUF file has for it. It knows
// tokenizer.json, SentencePiece's models, tiktoken's ranks, Mistral's tekken.json, BERT's vocab.txt, and the files of
// RWKV, PLaMo and Grok.
package vocab

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A Vocabulary is the tokenizer of a model as a GGUF file has it.
type Vocabulary struct {
	Model  string // the kind of tokenizer, in GGUF's words
	Tokens []string
	Types  []int32 // of tokens, such as Control

	pre     string
	scores  []float32 // nil: none
	merges  []string
	special []namedID // in the order in which their names were first mentioned
	add     []namedFlag
	more    []gguf.KV // other keys, without the prefix tokenizer.ggml., or with the whole name if it is the program's own
	pair    *pair     // nil: the files do not say
	after   []string  // special tokens between bos and a text
	behind  []string  // and behind eos
	limit   int       // the number of tokens that the model has embeddings for
}

type namedID struct {
	name string
	id   int
}

type namedFlag struct {
	name string
	on   bool
}

// MaxTokens is the largest vocabulary that is read: the largest known has half a million tokens.
const MaxTokens = 1 << 24

const (
	normal      = int32(tokenizer.Normal)
	unknown     = int32(tokenizer.Unknown)
	Control     = int32(tokenizer.Control)
	UserDefined = int32(tokenizer.UserDefined)
	unused      = int32(tokenizer.Unused)
	byteToken   = int32(tokenizer.Byte)
)

// A tokenizerFile is the part of tokenizer.json that is used.
type tokenizerFile struct {
	Added         []addedToken   `json:"added_tokens"`
	Normalizer    map[string]any `json:"normalizer"`
	PreTokenizer  map[string]any `json:"pre_tokenizer"`
	PostProcessor map[string]any `json:"post_processor"`
	Decoder       map[string]any `json:"decoder"`
	Model         struct {
		Type         string `json:"type"`
		Vocab        any    `json:"vocab"`
		Merges       []any  `json:"merges"`
		ByteFallback bool   `json:"byte_fallback"`
		IgnoreMerges bool   `json:"ignore_merges"`
		Unknown      any    `json:"unk_id"`
		UnknownText  string `json:"unk_token"`
		Prefix       string `json:"continuing_subword_prefix"`
	} `json:"model"`
}

type addedToken struct {
	ID      int    `json:"id"`
	Content string `json:"content"`
	Special bool   `json:"special"`
}

// Read reads the tokenizer in a folder. The model is of the architecture arch in GGUF, has embeddings for limit tokens,
// and the settings of its config.json. Files that do not say how text is split into words take the pre-tokenizer pre.
func Read(dir, arch, pre string, limit int, model *hf.Config) (*Vocabulary, error) {
	v := &Vocabulary{limit: min(limit, MaxTokens)}
	size := model.CountOr("vocab_size", 0)
	if size > v.limit {
		return nil, fmt.Errorf("%s: vocab_size is %d, and there are embeddings of %d tokens", model.Path(), size,
			v.limit)
	}
	path := filepath.Join(dir, "tokenizer.json")
	file := &tokenizerFile{}
	err := hf.ReadJSON(path, file)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	settings, err := hf.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if file == nil && hf.Exists(dir, mergesName) && hf.Exists(dir, "vocab.json") {
		if file, err = readMerges(dir, arch, settings); err != nil {
			return nil, err
		}
	}
	if arch == "deberta" {
		settings.Want("do_lower_case", "false")
		settings.Want("split_by_punct", "false")
	}
	ranks := false
	switch {
	case arch == "gemma4" && file != nil:
		err = from(path, v.readMerged(file))
	case hf.Exists(dir, "source.spm"):
		err = v.readMarian(dir)
	case (arch == "pegasus" || arch == "mbart") && file != nil && file.Model.Type == "Unigram":
		err = from(path, v.readUnigram(file))
	case arch == "pegasus" && hf.Exists(dir, "spiece.model"):
		err = v.readExtended(dir, "spiece.model", piecesOfPegasus, nil)
	case arch == "mbart" && hf.Exists(dir, "sentencepiece.bpe.model"):
		err = v.readExtended(dir, "sentencepiece.bpe.model", piecesOfMBART, nil)
		if lang := settings.Text("src_lang"); lang != "" && v.behind != nil {
			v.behind = []string{lang}
		}
	case hf.Exists(dir, "spiece.model"):
		err = v.readExtended(dir, "spiece.model", piecesOfT5, file)
	case hf.Exists(dir, "spm.model"):
		err = v.readDeBERTa(dir, file)
	case hf.Exists(dir, "tokenizer.model") && !isRanks(filepath.Join(dir, "tokenizer.model")):
		kind := plainPieces
		if strings.HasPrefix(arch, "t5") {
			kind = piecesOfT5
		}
		err = v.readExtended(dir, "tokenizer.model", kind, file)
	case hf.Exists(dir, "sentencepiece.bpe.model"):
		err = v.readExtended(dir, "sentencepiece.bpe.model", piecesOfXLMR, file)
	case hf.Exists(dir, worldFile):
		err = v.readWorld(filepath.Join(dir, worldFile))
	case file == nil && hf.Exists(dir, jsonLines):
		err = v.readJSONLines(filepath.Join(dir, jsonLines))
	case file == nil && hf.Exists(dir, "tekken.json"):
		err = v.readTekken(filepath.Join(dir, "tekken.json"))
	case file == nil && hf.Exists(dir, listedName):
		err = v.readListed(filepath.Join(dir, listedName))
	case file == nil && ranksOf(dir) != "":
		ranks = true
		err = v.readRanks(ranksOf(dir), arch, pre)
	case file == nil && hf.Exists(dir, "vocab.txt"):
		err = v.readWords(filepath.Join(dir, "vocab.txt"))
	case file == nil:
		err = fmt.Errorf("%s has no tokenizer.json, tokenizer.model, tekken.json, *.tiktoken, vocab.txt or vocab.json with merges.txt; save the tokenizer with save_pretrained, which writes one", dir)
	case file.Model.Type == "WordPiece":
		err = from(path, v.readWordPiece(file))
	case file.Model.Type == "Unigram":
		err = from(path, v.readUnigram(file))
	case file.Model.Type == "BPE" && file.Model.ByteFallback:
		err = from(path, v.readScored(file))
	case file.Model.Type == "BPE":
		err = from(path, v.readBytes(file, pre))
	default:
		err = fmt.Errorf("%s: a tokenizer of the kind %q is not known; known are BPE, WordPiece and Unigram", path,
			file.Model.Type)
	}
	if err != nil {
		return nil, err
	}
	if err := v.decode(settings, ranks || v.scores != nil && v.merges == nil); err != nil {
		return nil, err
	}
	if size > len(v.Tokens) {
		v.grow(size)
	}
	v.specials(file, settings, model)
	return v, settings.Err()
}

// from puts the path of a file before an error.
func from(path string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// grow pads the vocabulary to n tokens with tokens that no text has.
func (v *Vocabulary) grow(n int) {
	for i := len(v.Tokens); i < n; i++ {
		v.Tokens = append(v.Tokens, fmt.Sprintf("[PAD%d]", i))
		v.Types = append(v.Types, unused)
		if v.scores != nil {
			v.scores = append(v.scores, -10000)
		}
	}
}

// has reports whether the model has an embedding for a token: tokenizers may have more tokens than the model.
func (v *Vocabulary) has(id int) bool { return id >= 0 && id < v.limit }

// put sets a token. It pads the vocabulary if the number is beyond its end.
func (v *Vocabulary) put(id int, text string, typ int32, score float32) error {
	if !v.has(id) {
		return fmt.Errorf("token %.40q has the number %d, and there are embeddings of %d", text, id, v.limit)
	}
	v.grow(id + 1)
	v.Tokens[id], v.Types[id] = text, typ
	if v.scores != nil {
		v.scores[id] = score
	}
	return nil
}

// looksSpecial reports whether a token looks like one of structure, although it is not marked as special.
func looksSpecial(text string) bool {
	switch text {
	case "<pad>", "<mask>", "<2mass>", "[@BOS@]":
		return true
	}
	return strings.HasPrefix(text, "<|") && strings.HasSuffix(text, "|>") ||
		strings.HasPrefix(text, "<｜") && strings.HasSuffix(text, "｜>") ||
		strings.HasPrefix(text, "<unused") && strings.HasSuffix(text, ">")
}

// added returns an added token's text, as it is in plain text, and its type.
func added(text string, special bool) (string, int32) {
	if special || looksSpecial(text) {
		return text, Control
	}
	return strings.ReplaceAll(text, "▁", " "), UserDefined
}

// vocab returns the tokens of tokenizer.json with their numbers.
func (f *tokenizerFile) vocab() (map[string]int, error) {
	m, ok := f.Model.Vocab.(map[string]any)
	if !ok {
		return nil, errors.New("model.vocab is not an object of tokens")
	}
	all := make(map[string]int, len(m))
	for text, v := range m {
		id, ok := hf.AsCount(v)
		if !ok {
			return nil, fmt.Errorf("model.vocab: the number of %.40q is %.40v", text, v)
		}
		all[text] = id
	}
	return all, nil
}

// merges returns the merges of tokenizer.json: two parts with a space between them, and no space within.
func (f *tokenizerFile) merges() ([]string, error) {
	all := make([]string, 0, len(f.Model.Merges))
	for i, v := range f.Model.Merges {
		switch v := v.(type) {
		case string:
			all = append(all, v)
			continue
		case []any:
			if len(v) == 2 {
				a, ok := v[0].(string)
				if b, also := v[1].(string); ok && also {
					all = append(all, strings.ReplaceAll(a, " ", "Ġ")+" "+strings.ReplaceAll(b, " ", "Ġ"))
					continue
				}
			}
		}
		return nil, fmt.Errorf("model.merges[%d] is %.40v, want two strings", i, v)
	}
	return all, nil
}

// fill puts the tokens of tokenizer.json.
func (v *Vocabulary) fill(f *tokenizerFile) error {
	vocab, err := f.vocab()
	if err != nil {
		return err
	}
	for text, id := range vocab {
		if err := v.put(id, text, normal, 0); err != nil {
			return err
		}
	}
	for _, a := range f.Added {
		if !v.has(a.ID) {
			continue
		}
		text, typ := added(a.Content, a.Special)
		if a.Content == f.Model.UnknownText && f.Model.ByteFallback {
			typ = unknown
		}
		if err := v.put(a.ID, text, typ, 0); err != nil {
			return err
		}
	}
	return nil
}

// readBytes reads byte-level BPE.
func (v *Vocabulary) readBytes(f *tokenizerFile, pre string) (err error) {
	v.Model, v.pre = "gpt2", pre
	if pre == "" {
		if v.pre, err = preTokenizer(f); err != nil {
			return err
		}
	}
	if err := v.fill(f); err != nil {
		return err
	}
	v.merges, err = f.merges()
	return err
}

// readMerged reads BPE that spells spaces as SentencePiece does, and has merges.
func (v *Vocabulary) readMerged(f *tokenizerFile) (err error) {
	v.Model, v.scores = "gemma4", []float32{}
	if err := v.fill(f); err != nil {
		return err
	}
	for i, text := range v.Tokens {
		if isByte(text) && v.Types[i] == normal {
			v.Types[i] = byteToken
		}
		v.scores[i] = -1000
	}
	v.merges, err = f.merges()
	return err
}

// readScored reads BPE that spells spaces as SentencePiece does. Merges become scores: the earlier, the higher.
func (v *Vocabulary) readScored(f *tokenizerFile) error {
	v.Model, v.pre, v.scores = "llama", "default", []float32{}
	if err := v.fill(f); err != nil {
		return err
	}
	merges, err := f.merges()
	if err != nil {
		return err
	}
	rank := make(map[string]int, len(merges))
	for i, pair := range merges {
		text := strings.Replace(pair, " ", "", 1)
		if _, twice := rank[text]; !twice {
			rank[text] = i
		}
	}
	inOrder, last := true, -1
	for _, text := range v.Tokens {
		if r, ok := rank[text]; ok {
			inOrder = inOrder && r > last
			last = r
		}
	}
	for i, text := range v.Tokens {
		r, merged := rank[text]
		switch {
		case v.Types[i] == normal && isByte(text):
			v.Types[i] = byteToken
		case v.Types[i] != normal:
		case inOrder: // as in SentencePiece's own files
			v.scores[i] = float32(259 - i)
		case merged:
			v.scores[i] = -float32(r + 1)
		}
	}
	return nil
}

var bytePattern = regexp.MustCompile(`^<0x[0-9A-Fa-f]{2}>$`)

func isByte(text string) bool { return bytePattern.MatchString(text) }

// decode puts the tokens that tokenizer_config.json adds, if adds says that the vocabulary's own file does not have
// them.
func (v *Vocabulary) decode(settings *hf.Config, adds bool) error {
	if !adds {
		return nil
	}
	for number, entry := range settings.Object("added_tokens_decoder") {
		id, ok := hf.Digits(number)
		o, isObject := entry.(map[string]any)
		text, isText := o["content"].(string)
		if ok && isObject && isText && !v.has(id) {
			continue
		}
		if !ok || !isObject || !isText {
			return fmt.Errorf("%s: added_tokens_decoder: %.40q is %.80v, want a token", settings.Path(), number, entry)
		}
		special, _ := o["special"].(bool)
		text, typ := added(text, special)
		if id < len(v.Types) && v.Types[id] == unknown && v.Tokens[id] == text {
			continue
		}
		score := float32(0)
		if id >= len(v.Types) || v.Types[id] != typ || v.Tokens[id] != text {
			score = -1000
		} else if v.scores != nil {
			score = v.scores[id]
		}
		if err := v.put(id, text, typ, score); err != nil {
			return fmt.Errorf("%s: %w", settings.Path(), err)
		}
	}
	return nil
}
