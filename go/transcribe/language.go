package transcribe

import (
	"fmt"
	"strings"
)

// languages are those that Whisper knows, with the codes that its tokens have.
var languages = []struct{ code, name string }{
	{"en", "english"},
	{"zh", "chinese"},
	{"de", "german"},
	{"es", "spanish"},
	{"ru", "russian"},
	{"ko", "korean"},
	{"fr", "french"},
	{"ja", "japanese"},
	{"pt", "portuguese"},
	{"tr", "turkish"},
	{"pl", "polish"},
	{"ca", "catalan"},
	{"nl", "dutch"},
	{"ar", "arabic"},
	{"sv", "swedish"},
	{"it", "italian"},
	{"id", "indonesian"},
	{"hi", "hindi"},
	{"fi", "finnish"},
	{"vi", "vietnamese"},
	{"he", "hebrew"},
	{"uk", "ukrainian"},
	{"el", "greek"},
	{"ms", "malay"},
	{"cs", "czech"},
	{"ro", "romanian"},
	{"da", "danish"},
	{"hu", "hungarian"},
	{"ta", "tamil"},
	{"no", "norwegian"},
	{"th", "thai"},
	{"ur", "urdu"},
	{"hr", "croatian"},
	{"bg", "bulgarian"},
	{"lt", "lithuanian"},
	{"la", "latin"},
	{"mi", "maori"},
	{"ml", "malayalam"},
	{"cy", "welsh"},
	{"sk", "slovak"},
	{"te", "telugu"},
	{"fa", "persian"},
	{"lv", "latvian"},
	{"bn", "bengali"},
	{"sr", "serbian"},
	{"az", "azerbaijani"},
	{"sl", "slovenian"},
	{"kn", "kannada"},
	{"et", "estonian"},
	{"mk", "macedonian"},
	{"br", "breton"},
	{"eu", "basque"},
	{"is", "icelandic"},
	{"hy", "armenian"},
	{"ne", "nepali"},
	{"mn", "mongolian"},
	{"bs", "bosnian"},
	{"kk", "kazakh"},
	{"sq", "albanian"},
	{"sw", "swahili"},
	{"gl", "galician"},
	{"mr", "marathi"},
	{"pa", "punjabi"},
	{"si", "sinhala"},
	{"km", "khmer"},
	{"sn", "shona"},
	{"yo", "yoruba"},
	{"so", "somali"},
	{"af", "afrikaans"},
	{"oc", "occitan"},
	{"ka", "georgian"},
	{"be", "belarusian"},
	{"tg", "tajik"},
	{"sd", "sindhi"},
	{"gu", "gujarati"},
	{"am", "amharic"},
	{"yi", "yiddish"},
	{"lo", "lao"},
	{"uz", "uzbek"},
	{"fo", "faroese"},
	{"ht", "haitian creole"},
	{"ps", "pashto"},
	{"tk", "turkmen"},
	{"nn", "nynorsk"},
	{"mt", "maltese"},
	{"sa", "sanskrit"},
	{"lb", "luxembourgish"},
	{"my", "myanmar"},
	{"bo", "tibetan"},
	{"tl", "tagalog"},
	{"mg", "malagasy"},
	{"as", "assamese"},
	{"tt", "tatar"},
	{"haw", "hawaiian"},
	{"ln", "lingala"},
	{"ha", "hausa"},
	{"ba", "bashkir"},
	{"jw", "javanese"},
	{"su", "sundanese"},
	{"yue", "cantonese"},
}

// LanguageName returns the name of a language in English, or its code if that is not known.
func LanguageName(code string) string {
	for _, l := range languages {
		if l.code == code {
			return l.name
		}
	}
	return code
}

// LanguageCode returns the code of a language that is named by its code or in English.
func LanguageCode(name string) (code string, err error) {
	name = strings.ToLower(strings.TrimSpace(name))
	for _, l := range languages {
		if name == l.code || name == l.name {
			return l.code, nil
		}
	}
	return "", fmt.Errorf("%.40q is not known; give a code such as en, de or ja", name)
}

// LanguageCodes returns the codes in the order of the tokens of Whisper's vocabularies, of which older ones lack the
// last.
func LanguageCodes() (codes []string) {
	for _, l := range languages {
		codes = append(codes, l.code)
	}
	return codes
}
