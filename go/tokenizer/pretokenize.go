package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// preTokenizer splits text into words before byte-level merges, as in the training of the model family. It
// also holds the other properties that its name implies.
type preTokenizer struct {
	name       string
	aliases    []string // families that cut in the same way
	stages     []finder
	wholeWords bool // a word that is in the vocabulary is not merged but one token
	addBOS     bool // unless the file says otherwise
	nfc        bool // the family's tokenizer composes characters first
}

// preTokenizers lists those that are supported. Tests compare the finders with the published regular
// expressions.
var preTokenizers = []*preTokenizer{
	{
		name:       "llama-bpe",
		aliases:    []string{"llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
		stages:     []finder{at(llama3Words)},
		wholeWords: true,
		addBOS:     true,
	},
	{
		// No key in a file asks for composition; the tokenizers of these
		// models do.
		name:    "qwen2",
		aliases: []string{"deepseek-r1-qwen", "megrez", "kormo", "f2llmv2"},
		stages:  []finder{at(qwen2Words)},
		nfc:     true,
	},
	{
		name:   "qwen35",
		stages: []finder{at(qwen35Words)},
		nfc:    true,
	},
	{
		name:    "gpt-2",
		aliases: []string{"phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "gigachat", "a.x-4.0", "mellum", "modern-bert", "exaone4", "mpt", "olmo", "jais", "trillion", "granite-docling", "jina-v1-en", "jina-v2-code", "roberta-bpe"},
		stages:  []finder{at(gpt2Words)},
	},
	{
		name:   "deepseek-llm",
		stages: []finder{at(lineBreak), at(casedLetters), at(asciiLike), trailingSpace, at(eastAsian), at(numbers)},
	},
	{
		name:   "deepseek-coder",
		stages: []finder{at(lineBreak), at(spacedLetters), at(spacedPunctuation), at(eastAsian), at(oneNumber)},
	},
	{
		name:    "deepseek-v3",
		aliases: []string{"hunyuan-dense", "joyai-llm", "hy_v4"},
		stages:  []finder{at(upToThreeNumbers), at(chineseJapanese), at(deepseek3Words)},
	},
	{
		name:   "spark2_5",
		stages: []finder{at(upToThreeNumbers), at(chineseJapanese), at(sparkWords), at(oneNumber)},
	},
	{
		name:   "afmoe",
		stages: []finder{groupedDigits, at(asianRuns), at(deepseek3Words)},
	},
	{
		name:   "jais-2",
		stages: []finder{at(llama3Words), powersOfTwo},
	},
	{
		name:   "chameleon",
		stages: []finder{at(sentinel), at(imageToken), at(tabOrSpaces), at(oneNumber), at(oneSign), at(gpt2Words)},
		addBOS: true,
	},
	{
		name:   "kimi-k2",
		stages: []finder{at(kimiWords)},
	},
	{
		name:    "smollm",
		aliases: []string{"starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"},
		stages:  []finder{at(oneNumber), at(gpt2Words)},
	},
	{
		name:       "tekken",
		stages:     []finder{at(tekkenWords)},
		wholeWords: true,
		addBOS:     true,
	},
	{
		name:    "gpt-4o",
		aliases: []string{"llama4", "minimax-m2", "kanana2", "talkie"},
		stages:  []finder{at(gpt4oWords)},
	},
	{
		name:       "granite-embed-multi-97m",
		stages:     []finder{at(gpt4oWords)},
		wholeWords: true,
	},
	{
		name:       "youtu",
		stages:     []finder{at(eastAsianRuns), at(youtuWords)},
		wholeWords: true,
	},
	{
		name:    "tiny_aya",
		aliases: []string{"cohere2moe"},
		stages:  []finder{thousands, at(gpt4oWords)},
	},
	{
		name:   "superbpe", // words are joined across spaces
		stages: []finder{at(numbers), threes},
	},
	{
		name:       "minicpm5",
		stages:     []finder{at(upToThreeNumbers), at(llama3Words)},
		wholeWords: true,
	},
	{
		name:    "glm4",
		aliases: []string{"chatglm-bpe", "dbrx", "smaug-bpe"},
		stages:  []finder{at(llama3Words)},
	},
	{
		name:   "nanochat",
		stages: []finder{at(nanochatWords)},
	},
	{
		name:    "hunyuan",
		aliases: []string{"bailingmoe", "bailingmoe2", "llada-moe", "stablelm2", "solar-open", "grok-2"},
		stages:  []finder{at(qwen2Words)},
	},
	{
		name:   "seed-coder",
		stages: []finder{at(seedWords)},
	},
	{
		name:   "exaone-moe",
		stages: []finder{at(exaoneWords)},
	},
	{
		name:    "bloom",
		aliases: []string{"poro-chat", "gpt3-finnish"},
		stages:  []finder{at(bloomWords)},
	},
	{
		name:   "viking",
		stages: []finder{at(bloomWords), at(oneNumber)},
	},
	{
		name:   "ufakzeka",
		stages: []finder{at(plainWords)},
	},
	{
		name:   "laguna",
		stages: []finder{at(linesAndBreaks), at(qwen2Words)},
	},
	{
		name:   "falcon",
		stages: []finder{at(signsOrBacktick), at(gpt2Words), at(threeDigits)},
	},
	{
		name:   "default",
		stages: []finder{at(signs), at(gpt2Words), at(numbers), at(threeDigits)},
	},
}

// newPreTokenizer returns the one that the file names. Older files name none.
func newPreTokenizer(r *reader) *preTokenizer {
	name := r.str("pre", false)
	if name == "" {
		name = "default"
	}
	var supported []string
	for _, p := range preTokenizers {
		if p.name == name || slices.Contains(p.aliases, name) {
			return p
		}
		supported = append(supported, p.name)
	}
	r.fail("%spre %q is not supported; supported are %s", prefix, name, strings.Join(supported, ", "))
	return &preTokenizer{}
}

// A finder returns the first match in s at or after i, or start = len(s) if there is none. Matches are never
// empty.
type finder func(s string, i int) (start, end int)

// at makes a finder from a function that matches at one position and returns the end of the match, or i if
// there is none. To keep splitting linear, the function must not read beyond its match by more than a bounded
// number of characters.
func at(match func(s string, i int) int) finder {
	return func(s string, i int) (int, int) {
		for i < len(s) {
			if end := match(s, i); end > i {
				return i, end
			}
			_, size := utf8.DecodeRuneInString(s[i:])
			i += size
		}
		return i, i
	}
}

// split calls emit with the words of text, in order, until it returns false; concatenated they are the text. Each stage splits every
// piece left by the stage before into its matches and the text between them.
func (p *preTokenizer) split(text string, emit func(word string) bool) {
	cutStage(p.stages, text, emit)
}

func cutStage(stages []finder, s string, emit func(string) bool) bool {
	if len(stages) == 0 {
		return emit(s)
	}
	for done := 0; done < len(s); {
		start, end := stages[0](s, done)
		if done < start && !cutStage(stages[1:], s[done:start], emit) {
			return false
		}
		if start < end && !cutStage(stages[1:], s[start:end], emit) {
			return false
		}
		done = end
	}
	return true
}
