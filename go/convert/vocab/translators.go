package vocab

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/safetensors"
)

// answersOnly is the key of what no text that is read has: true for each token that only answers have. GGUF has no such
// key.
const answersOnly = "quern.tokenizer.answers_only"

// readMarian reads the tokenizer of Marian's translators: vocab.json has the numbers of the pieces of two languages, and
// source.spm the scores of those that texts are split into. Pieces that vocab.json lacks are not used.
func (v *Vocabulary) readMarian(dir string) error {
	path := filepath.Join(dir, "vocab.json")
	var numbers map[string]any
	if err := hf.ReadJSON(path, &numbers); err != nil {
		return err
	}
	source := filepath.Join(dir, "source.spm")
	text, err := safetensors.ReadText(source)
	if err != nil {
		return err
	}
	m, err := parsePieces(text)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	if m.kind != 1 {
		return fmt.Errorf("%s: a model of the kind %d, want Unigram", source, m.kind)
	}
	v.pre, v.scores = "default", []float32{}
	v.unigram(m.dummyPrefix, m.oneSpace, m.charsmap)
	pieces, worst := map[string]spelled{}, float32(0)
	for _, p := range m.pieces {
		pieces[p.text], worst = p, min(worst, p.score)
	}
	var only []int
	for _, text := range slices.Sorted(maps.Keys(numbers)) {
		id, ok := hf.AsCount(numbers[text])
		if !ok {
			return fmt.Errorf("%s: the number of %.40q is %.40v", path, text, numbers[text])
		}
		p, known := pieces[text]
		typ := normal
		switch {
		case text == "<unk>":
			typ = unknown
		case text == "</s>" || text == "<pad>" || text == "<s>":
			typ = Control
		case strings.HasPrefix(text, ">>") && strings.HasSuffix(text, "<<"): // the language of an answer
			typ = UserDefined
		case !known:
			p.score, only = worst, append(only, id)
		}
		if err := v.put(id, text, typ, p.score); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	is := make([]bool, len(v.Tokens))
	for _, id := range only {
		is[id] = true
	}
	v.more = append(v.more, gguf.KV{Key: answersOnly, Value: is})
	return nil
}

// offsetOfPegasus is how many tokens Pegasus has before those of its SentencePiece model.
const offsetOfPegasus = 103

// ofPegasus puts before the pieces what Pegasus' tokenizer has in place of the first two.
func ofPegasus(pieces []spelled) []spelled {
	all := []spelled{{"<pad>", 0, 3}, {"</s>", 0, 3}, {"<mask_1>", 0, 3}, {"<mask_2>", 0, 3}}
	for i := 2; i < offsetOfPegasus; i++ {
		all = append(all, spelled{fmt.Sprintf("<unk_%d>", i), 0, 3})
	}
	return append(all, pieces[min(2, len(pieces)):]...)
}

// languagesOfMBART are its tokens of languages. The first model has 25 of them, mBART-50 all.
const languagesOfMBART = `ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV
	my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN
	mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI`

// ofMBART puts around the pieces what mBART's tokenizer has: as XLM-R's at the beginning, and at the end languages and the
// mask, as many as the model has embeddings for.
func (v *Vocabulary) ofMBART(pieces []spelled) []spelled {
	all := []spelled{{"<s>", 0, 3}, {"<pad>", 0, 3}, {"</s>", 0, 3}, {"<unk>", 0, 2}}
	all = append(all, pieces[min(3, len(pieces)):]...)
	codes := strings.Fields(languagesOfMBART)
	if v.limit-len(all) <= len(codes) { // the first mBART, whose texts end with their language
		codes, v.behind = codes[:25], []string{"en_XX"}
	}
	for _, code := range append(codes, "<mask>") {
		all = append(all, spelled{code, 0, 3})
	}
	return all
}
