package vocab

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/safetensors"
)

// mergesName is the file of merges beside vocab.json.
const mergesName = "merges.txt"

// around are the tokens that architectures put at the beginning and the end of texts, where their files do not say it.
var around = map[string][2]string{"bert": {"<s>", "</s>"}, "bart": {"<s>", "</s>"}, "deberta": {"[CLS]", "[SEP]"}}

// readMerges reads byte-level BPE as GPT-2 published it, in two files: vocab.json has the tokens with their numbers,
// and merges.txt a merge in each line. Text is cut as GPT-2 does. Tokens that tokenizer_config.json names are special.
func readMerges(dir, arch string, settings *hf.Config) (*tokenizerFile, error) {
	f := &tokenizerFile{PreTokenizer: map[string]any{"type": "ByteLevel"}}
	f.Model.Type = "BPE"
	var vocab map[string]any
	if err := hf.ReadJSON(filepath.Join(dir, "vocab.json"), &vocab); err != nil {
		return nil, err
	}
	f.Model.Vocab = vocab
	path := filepath.Join(dir, mergesName)
	text, err := safetensors.ReadText(path)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 || len(f.Model.Merges) == 0 && bytes.HasPrefix(line, []byte("#version")) {
			continue
		}
		if bytes.Count(line, []byte(" ")) != 1 {
			return nil, fmt.Errorf("%s: %.60q, want two parts of a token", path, line)
		}
		if len(f.Model.Merges) == MaxTokens {
			return nil, fmt.Errorf("%s: more than %d merges", path, MaxTokens)
		}
		f.Model.Merges = append(f.Model.Merges, string(line))
	}
	special := map[string]bool{}
	if ends, ok := around[arch]; ok {
		f.PostProcessor = map[string]any{"type": "RobertaProcessing", "cls": []any{ends[0], 0}, "sep": []any{ends[1], 0}}
		if arch == "deberta" { // which has seen one separator between two texts
			f.PostProcessor = oneBetween(ends[0], ends[1])
		}
		for _, text := range []string{ends[0], ends[1], "<pad>", "<unk>", "<mask>", "[PAD]", "[UNK]", "[MASK]"} {
			special[text] = true
		}
	}
	for _, k := range kinds {
		switch t := settings.Value(k.name + "_token").(type) {
		case string:
			special[t] = true
		case map[string]any:
			name, _ := t["content"].(string)
			special[name] = true
		}
	}
	for text := range special {
		if id, ok := hf.AsCount(vocab[text]); ok && text != "" {
			f.Added = append(f.Added, addedToken{ID: id, Content: text, Special: true})
		}
	}
	return f, nil
}

// oneBetween returns a post-processor that puts cls before texts and sep behind each, where the second of a pair has the second
// type.
func oneBetween(cls, sep string) map[string]any {
	special := func(id string) any { return map[string]any{"SpecialToken": map[string]any{"id": id}} }
	text := func(id string, typ float64) any {
		return map[string]any{"Sequence": map[string]any{"id": id, "type_id": typ}}
	}
	return map[string]any{"type": "TemplateProcessing", "single": []any{special(cls), text("A", 0), special(sep)},
		"pair": []any{special(cls), text("A", 0), special(sep), text("B", 1), special(sep)}}
}
