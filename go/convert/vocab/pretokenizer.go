package vocab

import (
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/tokenizer"
)

// Regular expressions that parts of tokenizer.json stand for.
const (
	wordsOfGPT2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	punctuation = "[\\p{P}\\$\\+<=>\\^~\\|`]+"
)

// preTokenizer returns the name of the pre-tokenizer that splits text by the same expressions as tokenizer.json says.
func preTokenizer(f *tokenizerFile) (string, error) {
	var patterns []string
	var other error
	each(f.PreTokenizer, "pretokenizers", func(p map[string]any) {
		switch p["type"] {
		case "Split":
			of, _ := p["pattern"].(map[string]any)
			pattern, ok := of["Regex"].(string)
			if behavior, _ := p["behavior"].(string); !ok || behavior != "Isolated" && behavior != "Removed" {
				other = fmt.Errorf("pre_tokenizer: a Split by %.80v that is %v", of, p["behavior"])
			}
			if p["behavior"] == "Removed" && p["invert"] != true {
				other = fmt.Errorf("pre_tokenizer: a Split by %.80v that removes what it finds", of)
			}
			patterns = append(patterns, pattern)
		case "Digits":
			if one, _ := p["individual_digits"].(bool); one {
				patterns = append(patterns, `\p{N}`)
			} else {
				patterns = append(patterns, `\p{N}+`)
			}
		case "Punctuation":
			patterns = append(patterns, punctuation)
		case "ByteLevel":
			if split, set := p["use_regex"].(bool); split || !set {
				patterns = append(patterns, wordsOfGPT2)
			}
		default:
			other = fmt.Errorf("pre_tokenizer: %.40v", p["type"])
		}
	})
	const hint = "name one that cuts in the same way with --pre, such as llama-bpe, qwen2 or gpt-2"
	if other != nil {
		return "", fmt.Errorf("%w is not known; %s", other, hint)
	}
	nfc := false
	each(f.Normalizer, "normalizers", func(n map[string]any) { nfc = nfc || n["type"] == "NFC" })
	name, ok := tokenizer.PreTokenizerOf(patterns, f.Model.IgnoreMerges, nfc)
	if !ok {
		return "", fmt.Errorf("words cut by %.300q are not known; %s", strings.Join(patterns, " then "), hint)
	}
	return name, nil
}
