package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/tokenizer"
)

func newTokenizeCommand() *cobra.Command {
	var (
		path                                        string
		text                                        textFlag
		onlyIDs, noSpecial, noParse, inverse, count bool
	)
	cmd := &cobra.Command{
		Use:   "tokenize -m FILE [TEXT | -p TEXT | -f FILE]",
		Short: "Convert text to token ids, or back",
		Long: `Convert text to a model's token ids, one "id -> 'piece'" per line. Unprintable bytes
of a piece are escaped. With --detok, convert token ids to text; they may have
commas and brackets.`,
		Example: `  quern tokenize -m model.gguf -p "Hello world" --ids
  quern tokenize -m model.gguf -p "Hello world" --ids | quern tokenize -m model.gguf --detok`,
		Args: onePrompt,
		RunE: func(cmd *cobra.Command, args []string) error {
			text.args = args
			if path == "" {
				return errNoModel
			}
			if inverse && onlyIDs {
				return usagef("--detok reads ids and --ids prints them; give one of them")
			}
			given, err := text.read(cmd.InOrStdin())
			if err != nil {
				return err
			}
			tok, err := newFiles().Tokenizer(path)
			if err != nil {
				return err
			}
			w := bufio.NewWriter(cmd.OutOrStdout())
			if inverse {
				ids, err := parseIDs(given, tok.Len())
				if err != nil {
					return err
				}
				w.WriteString(detokenize(tok, ids, noSpecial))
				return w.Flush()
			}
			ids := tok.Encode(given, tokenizer.Options{NoSpecial: noSpecial, ParseSpecial: !noParse})
			if onlyIDs {
				printIDs(w, ids)
			} else {
				printPieces(w, tok, ids)
			}
			if count {
				fmt.Fprintf(w, "Total number of tokens: %d\n", len(ids))
			}
			return w.Flush()
		},
	}
	fs := cmd.Flags()
	modelVar(fs, &path, "GGUF `FILE`, or one with only a vocabulary; demo is the embedded demo model")
	text.define(fs, "to encode, or ids with --detok")
	fs.BoolVar(&onlyIDs, "ids", false, "print the ids on one line, separated by spaces")
	fs.BoolVar(&noSpecial, "no-special", false, "add neither BOS nor EOS; with --detok: none was added")
	fs.BoolVar(&noParse, "no-parse-special", false, "treat control tokens in the text as plain text")
	alias(fs, "no-special", "-no-bos") // llama-tokenize's name
	fs.BoolVar(&inverse, "detok", false, "convert token ids to text")
	fs.BoolVar(&count, "show-count", false, "print the number of tokens too")
	for name, usage := range map[string]string{"stdin": "where no text is given it is read there", "log-disable": "there is no log"} {
		fs.Bool(name, true, usage) // of llama-tokenize, and so in any case
		fs.Lookup(name).Hidden = true
	}
	return cmd
}

func printIDs(w io.Writer, ids []int32) {
	for i, id := range ids {
		if i > 0 {
			io.WriteString(w, " ")
		}
		io.WriteString(w, strconv.Itoa(int(id)))
	}
	io.WriteString(w, "\n")
}

func printPieces(w io.Writer, tok *tokenizer.Tokenizer, ids []int32) {
	for _, id := range ids {
		fmt.Fprintf(w, "%6d -> '%s'\n", id, printable(tok.Piece(id, true)))
	}
}

// printable returns a piece with non-printable bytes and line breaks escaped. Pieces
// may be parts of characters.
func printable(piece []byte) string {
	var b strings.Builder
	for len(piece) > 0 {
		r, n := utf8.DecodeRune(piece)
		if r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) {
			quoted := strconv.Quote(string(piece[:n]))
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
		piece = piece[n:]
	}
	return b.String()
}

// parseIDs parses ids separated by white space, commas or brackets, each below vocab.
func parseIDs(text string, vocab int) ([]int32, error) {
	var ids []int32
	for _, word := range strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(",[]", r)
	}) {
		id, err := strconv.Atoi(word)
		if err != nil || id < 0 || id >= vocab {
			return nil, fmt.Errorf("token id %.40q is not in the vocabulary, want 0 to %d", word, vocab-1)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

// detokenize is the inverse of Encode. A BOS or EOS that Encode adds leaves no
// text, other control tokens do. With noSpecial ids are a whole text that had
// none added; without BOS they are otherwise a continuation, which keeps the
// space before its first word.
func detokenize(tok *tokenizer.Tokenizer, ids []int32, noSpecial bool) string {
	bos, hasBOS := tok.BOS()
	eos, _ := tok.EOS()
	if n := len(ids); n > 0 && tok.AddEOS() && !noSpecial && ids[n-1] == eos {
		ids = ids[:n-1]
	}
	added := len(ids) > 0 && hasBOS && tok.AddBOS() && ids[0] == bos
	if noSpecial && hasBOS {
		ids, added = append([]int32{bos}, ids...), true
	}
	text := tok.Detokenize(ids, true)
	if added {
		text = strings.TrimPrefix(text, string(tok.Piece(bos, true)))
		if lead := tok.Lead(); len(lead) > 1 && !noSpecial {
			for _, id := range lead[1:] {
				text = strings.TrimPrefix(text, string(tok.Piece(id, true)))
			}
		}
	}
	return text
}
