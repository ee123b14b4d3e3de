package transcribe

import (
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/tokenizer"
)

// Symbols that are not spoken, which Whisper's reference implementation never writes: each alone and behind a space,
// where that is one token; of notes of music also the first token of several.
const unspoken = "\" # ( ) * + / : ; < = > @ [ \\ ] ^ _ ` { | } ~ \u300c \u300d \u300e \u300f << >> <<< >>> -- --- -( -[ (' (\" " +
	"(( )) ((( ))) [[ ]] {{ }} \u266a\u266a \u266a\u266a\u266a"

const notes = "\u2669 \u266a \u266b \u266c \u266d \u266e \u266f"

// NeverSaid returns the tokens that a model of speech never says, where its file does not list them, in ascending
// order.
func NeverSaid(tok *tokenizer.Tokenizer) []int32 {
	ids := []int32{tok.EncodePart(" -")[0], tok.EncodePart(" '")[0]}
	for _, list := range []string{unspoken, notes} {
		for symbol := range strings.FieldsSeq(list) {
			for _, text := range []string{symbol, " " + symbol} {
				if one := tok.EncodePart(text); len(one) == 1 || list == notes && len(one) > 0 {
					ids = append(ids, one[0])
				}
			}
		}
	}
	for _, name := range []string{"startoftranscript", "translate", "transcribe", "startoflm", "startofprev", "nospeech"} {
		ids = append(ids, tok.Encode("<|"+name+"|>", tokenizer.Options{NoSpecial: true, ParseSpecial: true})...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
