package synth

import "fmt"

// A vocabulary is a family of tokenizers. Generated ones have the family's algorithm,
// size and special tokens; the words are invented.
type vocabulary int

const (
	llama3      vocabulary = iota // byte-level BPE, as Llama 3 splits text
	qwen2                         // byte-level BPE, as Qwen 2 and 3 split text
	qwen35                        // the same with more words, as Qwen 3.5 splits text
	spm                           // SentencePiece, as Llama 2 and Mixtral
	o200k                         // byte-level BPE, as gpt-oss splits text
	gemmaScores                   // SentencePiece, as Gemma 3n
	gemmaMerges                   // BPE in SentencePiece's spelling, as Gemma 4
	glm4                          // byte-level BPE, as GLM 4 splits text
	worldBytes                    // the longest tokens, as RWKV World
)

// Kinds of tokens, as GGUF numbers them.
const (
	normal  int32 = 1
	unknown int32 = 2
	control int32 = 3
	unused  int32 = 5
	byteTok int32 = 6
)

// letters is the alphabet of the words, most frequent first, so that a small vocabulary
// has the common pairs of English.
const letters = "etaoinshrdlcumwfgypbvkjxqz"

// A table collects the arrays of a tokenizer.
type table struct {
	tokens []string
	types  []int32
	scores []float32 // SentencePiece only
	merges []string  // BPE only
}

func (t *table) add(token string, kind int32) {
	t.tokens = append(t.tokens, token)
	t.types = append(t.types, kind)
}

// words adds words until there are n tokens. A word is an existing one plus a letter,
// with or without a leading space, so that each is one merge of two tokens, all are
// distinct, and shorter ones come first.
func (t *table) words(space string, n int) {
	stems := []string{space}
	for _, c := range letters {
		stems = append(stems, string(c))
	}
	for i := 0; len(t.tokens) < n; i++ {
		for _, c := range letters {
			if len(t.tokens) == n {
				return
			}
			word := stems[i] + string(c)
			t.add(word, normal)
			t.merges = append(t.merges, stems[i]+" "+string(c))
			stems = append(stems, word)
		}
	}
}

// byteLevel adds the 256 single-byte tokens, each spelled as a printable character: the
// byte's own if it is printable, else one from U+0100 on.
func (t *table) byteLevel() {
	printable := func(b rune) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xff && b != 0xad }
	for b := rune(0); b < 256; b++ {
		if printable(b) {
			t.add(string(b), normal)
		}
	}
	stand := rune(0x100)
	for b := rune(0); b < 256; b++ {
		if !printable(b) {
			t.add(string(stand), normal)
			stand++
		}
	}
}

// literals adds the 256 single-byte tokens, spelled as in a literal of Python's.
func (t *table) literals() {
	for b := range 256 {
		switch {
		case b == '\\':
			t.add(`\\`, normal)
		case b < ' ' || b > '~':
			t.add(fmt.Sprintf(`\x%02x`, b), normal)
		default:
			t.add(string(rune(b)), normal)
		}
	}
}

// pieces adds bytes, characters and words in SentencePiece's spelling until there are n tokens, which
// are joined by scores or by merges.
func (t *table) pieces(n int, scores bool) {
	for b := range 256 {
		t.add(fmt.Sprintf("<0x%02X>", b), byteTok)
	}
	t.add(spaceMark, normal)
	for c := '!'; c <= '~'; c++ {
		t.add(string(c), normal)
	}
	first := len(t.tokens) // of the words: a lower score is merged later
	t.words(spaceMark, n)
	if !scores {
		return
	}
	t.merges = nil
	t.scores = make([]float32, len(t.tokens))
	for i := first; i < len(t.scores); i++ {
		t.scores[i] = float32(first - i)
	}
}

// spaceByte is how byte-level vocabularies spell a space, spaceMark how
// SentencePiece does.
const (
	spaceByte = "\u0120"
	spaceMark = "\u2581"
)

// tokenizer sets the keys of the model's tokenizer.
func (s *Shape) tokenizer(set func(string, any)) {
	const p = "tokenizer.ggml."
	var t table
	switch s.Vocab {
	case llama3:
		names := []string{
			"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
			"<|finetune_right_pad_id|>", "<|reserved_special_token_2|>", "<|start_header_id|>", "<|end_header_id|>",
			"<|eom_id|>", "<|eot_id|>", "<|python_tag|>",
		}
		special := 16
		if s.NVocab >= 128000 {
			special = 256
		}
		t.byteLevel()
		t.words(spaceByte, s.NVocab-special)
		bos := len(t.tokens)
		for i := range special {
			if i < len(names) {
				t.add(names[i], control)
			} else {
				t.add(fmt.Sprintf("<|reserved_special_token_%d|>", i-8), control)
			}
		}
		set(p+"model", "gpt2")
		set(p+"pre", "llama-bpe")
		set(p+"bos_token_id", uint32(bos))
		set(p+"eos_token_id", uint32(bos+1))
		set(p+"add_bos_token", true)
	case qwen2, qwen35:
		text, pre := 151643, "qwen2" // text tokens, as many as the real ones have
		if s.Vocab == qwen35 {
			text, pre = 248044, "qwen35"
		}
		t.byteLevel()
		t.words(spaceByte, text)
		for _, name := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"} {
			t.add(name, control)
		}
		for i := len(t.tokens); i < s.NVocab; i++ {
			t.add(fmt.Sprintf("[PAD%d]", i), unused)
		}
		set(p+"model", "gpt2")
		set(p+"pre", pre)
		set(p+"bos_token_id", uint32(text))
		set(p+"eos_token_id", uint32(text+2))
		set(p+"padding_token_id", uint32(text))
		set(p+"add_bos_token", false)
	case o200k:
		const text = 199998
		t.byteLevel()
		t.words(spaceByte, text)
		names := map[int]string{
			199998: "<|startoftext|>", 199999: "<|endoftext|>", 200002: "<|return|>", 200003: "<|constrain|>",
			200005: "<|channel|>", 200006: "<|start|>", 200007: "<|end|>", 200008: "<|message|>", 200012: "<|call|>",
		}
		for i := len(t.tokens); i < s.NVocab; i++ {
			name, ok := names[i]
			if !ok {
				name = fmt.Sprintf("<|reserved_%d|>", i)
			}
			t.add(name, control)
		}
		set(p+"model", "gpt2")
		set(p+"pre", "gpt-4o")
		set(p+"bos_token_id", uint32(199998))
		set(p+"eos_token_id", uint32(200002))
		set(p+"padding_token_id", uint32(199999))
		set(p+"add_bos_token", false)
	case glm4:
		const text = 154820
		t.byteLevel()
		t.words(spaceByte, text)
		for _, name := range []string{
			"<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>",
		} {
			t.add(name, control)
		}
		for i := len(t.tokens); i < s.NVocab; i++ {
			t.add(fmt.Sprintf("[PAD%d]", i), unused)
		}
		set(p+"model", "gpt2")
		set(p+"pre", "glm4")
		set(p+"bos_token_id", uint32(text+2))
		set(p+"eos_token_id", uint32(text))
		set(p+"eot_token_id", uint32(text+7))
		set(p+"padding_token_id", uint32(text))
		set(p+"add_bos_token", false)
	case worldBytes:
		t.add("<s>", control)
		t.literals()
		t.words(" ", s.NVocab)
		t.merges = nil
		set(p+"model", "rwkv")
		set(p+"bos_token_id", uint32(0))
		set(p+"eos_token_id", uint32(0))
	case spm:
		t.add("<unk>", unknown)
		t.add("<s>", control)
		t.add("</s>", control)
		t.pieces(s.NVocab, true)
		set(p+"model", "llama")
		set(p+"pre", "default")
		set(p+"bos_token_id", uint32(1))
		set(p+"eos_token_id", uint32(2))
		set(p+"unknown_token_id", uint32(0))
		set(p+"add_bos_token", true)
		set(p+"add_eos_token", false)
	case gemmaScores, gemmaMerges:
		model, turns := "llama", []string{"<start_of_turn>", "<end_of_turn>"}
		if s.Vocab == gemmaMerges {
			model, turns = "gemma4", []string{"<|turn>", "<turn|>"}
		}
		for _, name := range append([]string{"<pad>", "<eos>", "<bos>"}, turns...) {
			t.add(name, control)
		}
		t.add("<unk>", unknown)
		t.pieces(s.NVocab, s.Vocab == gemmaScores)
		set(p+"model", model)
		set(p+"pre", "default")
		set(p+"bos_token_id", uint32(2))
		set(p+"eos_token_id", uint32(1))
		set(p+"eot_token_id", uint32(4))
		set(p+"unknown_token_id", uint32(5))
		set(p+"padding_token_id", uint32(0))
		set(p+"add_bos_token", true)
		set(p+"add_eos_token", false)
		set(p+"add_space_prefix", false)
	}
	set(p+"tokens", t.tokens)
	set(p+"token_type", t.types)
	if t.scores != nil {
		set(p+"scores", t.scores)
	}
	if t.merges != nil {
		set(p+"merges", t.merges)
	}
}
