package vocab

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/safetensors"
)

// Vocabularies that have ranks instead of merges: tiktoken's files, Mistral's tekken.json and Grok's
// tokenizer.tok.json. GGUF has merges, so each token becomes the merge of the two parts that are left when its bytes
// are merged by all lower ranks.

// A ranked token is bytes and their rank.
type ranked struct {
	text string
	rank int
}

// maxRanked is the largest length of a token. Merging takes time in proportion to its square.
const maxRanked = 1024

// ranksOf returns the path of the file of tiktoken's format in a folder, "" if there is none.
func ranksOf(dir string) string {
	files, _ := os.ReadDir(dir)
	for _, pattern := range []string{"*.tiktoken", "tiktoken.model", "tokenizer.model"} {
		for _, file := range files {
			if ok, _ := filepath.Match(pattern, file.Name()); ok && isRanks(filepath.Join(dir, file.Name())) {
				return filepath.Join(dir, file.Name())
			}
		}
	}
	return ""
}

// isRanks reports whether a file begins as tiktoken's format does: SentencePiece has models under the same names.
func isRanks(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	line, err := bufio.NewReaderSize(f, 4*maxRanked).ReadSlice('\n')
	if err != nil {
		return false
	}
	_, err = parseRank(line)
	return err == nil
}

// parseRank reads a line: a token in base64, and its rank.
func parseRank(line []byte) (ranked, error) {
	text, number, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
	rank, isNumber := hf.Digits(string(number))
	token, err := base64.StdEncoding.DecodeString(string(text))
	if !ok || !isNumber || err != nil || len(token) == 0 || len(token) > maxRanked {
		return ranked{}, fmt.Errorf("%.60q, want a token in base64 and its rank", line)
	}
	return ranked{string(token), rank}, nil
}

// preOfRanks are the pre-tokenizers of known files and architectures, since files of ranks do not name one.
var preOfRanks = map[string]string{
	"qwen.tiktoken": "qwen2", "arcade100k.tiktoken": "stablelm2", "hy.tiktoken": "hunyuan", "o200k_base.tiktoken": "gpt-4o",
	"cl100k_base.tiktoken": "dbrx", "deepseek2": "kimi-k2", "kimi-linear": "kimi-k2", "kimi-k3": "kimi-k2", "chatglm": "chatglm-bpe", "glm4": "glm4",
	"hunyuan-moe": "hunyuan", "hunyuan-dense": "hunyuan-dense",
}

// readRanks reads a file of tiktoken's format.
func (v *Vocabulary) readRanks(path, arch, pre string) error {
	if pre = cmp.Or(pre, preOfRanks[filepath.Base(path)], preOfRanks[arch]); pre == "" {
		return fmt.Errorf("%s does not say how words are cut; name a pre-tokenizer that cuts as this model's does with --pre, such as llama-bpe, qwen2 or gpt-4o", path)
	}
	text, err := safetensors.ReadText(path)
	if err != nil {
		return err
	}
	var all []ranked
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		r, err := parseRank(line)
		if err != nil {
			return fmt.Errorf("%s: line %d is %w", path, len(all)+1, err)
		}
		all = append(all, r)
	}
	if err := v.rank(all, 0, pre); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if filepath.Base(path) == "qwen.tiktoken" { // Qwen's tokenizer has its special tokens in its program
		specials := []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
		for i := range 205 {
			specials = append(specials, fmt.Sprintf("<|extra_%d|>", i))
		}
		for _, special := range specials {
			if v.has(len(v.Tokens)) {
				if err := v.put(len(v.Tokens), special, Control, 0); err != nil {
					return err
				}
			}
		}
		v.SetSpecial("eos", slices.Index(v.Tokens, "<|endoftext|>"))
		v.SetSpecial("eot", slices.Index(v.Tokens, "<|im_end|>"))
	}
	return nil
}

// rank puts tokens, of which the one of rank 0 gets the number first, and the merges that follow from their ranks.
func (v *Vocabulary) rank(all []ranked, first int, pre string) error {
	v.Model, v.pre = "gpt2", pre
	slices.SortFunc(all, func(a, b ranked) int { return a.rank - b.rank })
	ranks := make(map[string]int, len(all))
	for i, r := range all {
		if r.rank != i {
			return fmt.Errorf("the token %.40q has the rank %d, want %d: each rank once", r.text, r.rank, i)
		}
		if _, twice := ranks[r.text]; twice {
			return fmt.Errorf("the token %.40q has two ranks", r.text)
		}
		ranks[r.text] = i
		if err := v.put(first+i, byteText(r.text), normal, 0); err != nil {
			return err
		}
	}
	v.merges = []string{}
	for _, r := range all {
		if parts := partsOf(r.text, ranks); len(parts) == 2 {
			v.merges = append(v.merges, byteText(parts[0])+" "+byteText(parts[1]))
		}
	}
	return nil
}

// partsOf merges the bytes of a token by all ranks lower than its own, and returns the parts that are left.
func partsOf(token string, ranks map[string]int) []string {
	own := ranks[token]
	var parts []string
	for i := range len(token) {
		parts = append(parts, token[i:i+1])
	}
	for {
		best, at := own, -1
		for i := range len(parts) - 1 {
			if r, ok := ranks[parts[i]+parts[i+1]]; ok && r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			return parts
		}
		parts[at] += parts[at+1]
		parts = slices.Delete(parts, at+1, at+2)
	}
}

// byteText spells bytes as byte-level BPE does: each as a visible character.
func byteText(b string) string {
	var s strings.Builder
	for i := range len(b) {
		s.WriteRune(byteRunes[b[i]])
	}
	return s.String()
}

// byteRunes are the characters that stand for bytes: printable ones of Latin 1 for themselves, those from 256 on for
// the others.
var byteRunes = func() (runes [256]rune) {
	next := rune(256)
	for b := range rune(256) {
		if b > ' ' && b < 0x7f || b > 0xa0 && b != 0xad {
			runes[b] = b
			continue
		}
		runes[b] = next
		next++
	}
	return runes
}()

// A tekkenFile is the part of tekken.json that is used.
type tekkenFile struct {
	Config struct {
		Size     int `json:"default_vocab_size"`
		Specials int `json:"default_num_special_tokens"`
	} `json:"config"`
	Vocab []struct {
		Rank  int    `json:"rank"`
		Bytes string `json:"token_bytes"`
	} `json:"vocab"`
	Special []struct {
		Rank int    `json:"rank"`
		Text string `json:"token_str"`
	} `json:"special_tokens"`
}

// olderSpecials are the special tokens of versions of tekken.json that do not list them.
var olderSpecials = strings.Fields(`<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS]
[IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]`)

// readTekken reads Mistral's tekken.json, in which special tokens come first.
func (v *Vocabulary) readTekken(path string) error {
	var file tekkenFile
	if err := hf.ReadJSON(path, &file); err != nil {
		return err
	}
	c := file.Config
	if c.Specials < 0 || c.Size < c.Specials || c.Size > MaxTokens {
		return fmt.Errorf("%s: %d tokens of which %d are special", path, c.Size, c.Specials)
	}
	special := make([]string, c.Specials)
	for i := range special {
		if special[i] = fmt.Sprintf("<SPECIAL_%d>", i); i < len(olderSpecials) && file.Special == nil {
			special[i] = olderSpecials[i]
		}
	}
	for _, s := range file.Special {
		if s.Rank < 0 || s.Rank >= len(special) {
			return fmt.Errorf("%s: the special token %.40q has the rank %d, want less than %d", path, s.Text, s.Rank,
				len(special))
		}
		special[s.Rank] = s.Text
	}
	for i, text := range special {
		if err := v.put(i, text, Control, 0); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	var all []ranked
	for _, t := range file.Vocab {
		if t.Rank >= c.Size-c.Specials { // tokens beyond the vocabulary's size are for larger ones
			continue
		}
		text, err := base64.StdEncoding.DecodeString(t.Bytes)
		if err == nil && (len(text) == 0 || len(text) > maxRanked) {
			err = errors.New("no token")
		}
		if err != nil {
			return fmt.Errorf("%s: token_bytes of rank %d are %.60q, want base64 of 1 to %d bytes", path, t.Rank,
				t.Bytes, maxRanked)
		}
		all = append(all, ranked{string(text), t.Rank})
	}
	if err := v.rank(all, c.Specials, "tekken"); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for name, text := range map[string]string{"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>"} {
		v.SetSpecial(name, slices.Index(special, text))
	}
	v.SetAdd("bos", true)
	return nil
}

// listedName is the file of Grok 2's vocabulary.
const listedName = "tokenizer.tok.json"

// A listedToken is a token of this file: its bytes are a list of numbers.
type listedToken struct {
	ID    int   `json:"token"`
	Bytes []int `json:"bytes"`
}

// text returns the bytes of the token.
func (t listedToken) text() (string, error) {
	if len(t.Bytes) == 0 || len(t.Bytes) > maxRanked ||
		slices.ContainsFunc(t.Bytes, func(b int) bool { return b < 0 || b > 255 }) {
		return "", fmt.Errorf("the bytes of token %d are %.60v, want 1 to %d of 0 to 255", t.ID, t.Bytes, maxRanked)
	}
	b := make([]byte, len(t.Bytes))
	for i, x := range t.Bytes {
		b[i] = byte(x)
	}
	return string(b), nil
}

// readListed reads Grok 2's vocabulary. The numbers of regular tokens have no gaps, special tokens have the other
// numbers.
func (v *Vocabulary) readListed(path string) error {
	var file struct {
		Regular []listedToken `json:"regular_tokens"`
		Special []listedToken `json:"special_tokens"`
		Split   string        `json:"word_split"`
		Pattern string        `json:"pat_str"`
	}
	if err := hf.ReadJSON(path, &file); err != nil {
		return err
	}
	const known = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	if file.Split != "V1" || file.Pattern != "" && file.Pattern != known {
		return fmt.Errorf("%s: words are split by %.60q, want V1", path, cmp.Or(file.Pattern, file.Split))
	}
	if len(file.Regular) == 0 {
		return fmt.Errorf("%s: no regular_tokens", path)
	}
	first := slices.MinFunc(file.Regular, func(a, b listedToken) int { return a.ID - b.ID }).ID
	var all []ranked
	for _, t := range file.Regular {
		text, err := t.text()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, ranked{text, t.ID - first})
	}
	if first < 0 {
		return fmt.Errorf("%s: a token has the number %d", path, first)
	}
	if err := v.rank(all, first, "grok-2"); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, t := range file.Special {
		text, err := t.text()
		if err == nil {
			err = v.put(t.ID, text, Control, 0)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for name, text := range map[string]string{"eos": "<|eos|>", "pad": "<|pad|>", "eot": "<|separator|>"} {
		v.SetSpecial(name, slices.Index(v.Tokens, text))
	}
	return nil
}

// Ranked returns a vocabulary of byte-level BPE whose tokens' numbers are their ranks, for a model with embeddings of limit
// tokens.
func Ranked(texts []string, pre string, limit int) (*Vocabulary, error) {
	v := &Vocabulary{limit: min(limit, MaxTokens)}
	var all []ranked
	for i, text := range texts {
		all = append(all, ranked{text, i})
	}
	return v, v.rank(all, 0, pre)
}

// Append adds tokens of structure behind the others.
func (v *Vocabulary) Append(controls []string) {
	for _, text := range controls {
		v.Tokens, v.Types = append(v.Tokens, text), append(v.Types, Control)
	}
}
