package transcribe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/tokenizer"
)

// A Vocabulary is what a model of speech has tokens for beside text.
type Vocabulary struct {
	tok *tokenizer.Tokenizer

	start, end int32 // of a text
	before     int32 // what was said before follows
	silence    int32 // nothing is said
	noTimes    int32
	times      int32 // the first of the tokens for times, Step apart
	nTimes     int
	say        int32    // in the language that is heard; -1: the model knows one
	english    int32    // or in English
	languages  []int32  // the tokens of languages, in ascending order
	codes      []string // of these
	blank      int32    // a space alone; -1: there is none
}

// Step is how many tokens of times there are in a second.
const Step = 50

// ErrModel reports a model that does not transcribe.
var ErrModel = errors.New("it does not transcribe, as Whisper does and models whose projector hears")

// NewVocabulary finds the tokens in a model's vocabulary.
func NewVocabulary(tok *tokenizer.Tokenizer) (*Vocabulary, error) {
	ids := map[string]int32{}
	for id := range int32(tok.Len()) {
		if text := string(tok.Piece(id, true)); strings.HasPrefix(text, "<|") && strings.HasSuffix(text, "|>") {
			ids[text] = id
		}
	}
	v := &Vocabulary{tok: tok, say: -1, english: -1, blank: -1}
	find := func(to *int32, names ...string) error {
		for _, name := range names {
			if id, ok := ids[name]; ok {
				*to = id
				return nil
			}
		}
		return fmt.Errorf("%w: its vocabulary lacks %s", ErrModel, names[0])
	}
	err := errors.Join(find(&v.start, "<|startoftranscript|>"), find(&v.end, "<|endoftext|>"),
		find(&v.before, "<|startofprev|>"), find(&v.silence, "<|nospeech|>", "<|nocaptions|>"),
		find(&v.noTimes, "<|notimestamps|>"), find(&v.times, "<|0.00|>"))
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("%w%s", ErrModel, strings.TrimPrefix(line, ErrModel.Error()))
	}
	if v.times != v.noTimes+1 || v.end >= v.times {
		return nil, fmt.Errorf("%w: its tokens of times do not follow the others", ErrModel)
	}
	v.nTimes = tok.Len() - int(v.times)
	// Vocabularies of one language have these tokens too, one number lower, and the models do not know them.
	if v.end != english {
		if err := errors.Join(find(&v.say, "<|transcribe|>"), find(&v.english, "<|translate|>")); err != nil {
			return nil, err
		}
		for _, l := range languages {
			if id, ok := ids["<|"+l.code+"|>"]; ok {
				v.languages = append(v.languages, id)
			}
		}
		slices.Sort(v.languages)
		for _, id := range v.languages {
			v.codes = append(v.codes, strings.Trim(string(tok.Piece(id, true)), "<|>"))
		}
	}
	if one := tok.EncodePart(" "); len(one) == 1 {
		v.blank = one[0]
	}
	return v, nil
}

// english is the token that ends texts in models that know English alone. Others have one more token before it.
const english = 50256

// Multilingual reports whether the model knows languages beside English.
func (v *Vocabulary) Multilingual() bool { return v.say >= 0 }

// text returns the text of tokens without those that are none.
func (v *Vocabulary) text(ids []int32) string {
	var text []byte
	for _, id := range ids {
		if id < v.end {
			text = append(text, v.tok.Piece(id, false)...)
		}
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

// isTime reports whether a token is one of times.
func (v *Vocabulary) isTime(id int32) bool { return id >= v.times }

// head returns what the text of a window begins with: what was said before, and what is asked for. at is where the text
// itself is told to begin.
func (v *Vocabulary) head(before []int32, most int, language int32, translate bool) (ids []int32, at int) {
	if len(before) > 0 && most > 1 {
		ids = append(ids, v.before)
		ids = append(ids, before[max(len(before)-(most-1), 0):]...)
	}
	at = len(ids)
	ids = append(ids, v.start)
	if v.Multilingual() {
		task := v.say
		if translate {
			task = v.english
		}
		ids = append(ids, language, task)
	}
	return ids, at
}
