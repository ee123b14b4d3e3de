package chat

import (
	"crypto/rand"
	"strings"
)

// hermes is what most models are taught, and those that are taught nothing are told.
var hermes = syntax{open: "<tool_call>", shut: "</tool_call>", form: object{name: "name", args: "arguments"}}

// syntaxes tells by texts in the source of a template how its models write calls. The
// first whose texts are all there is meant.
var syntaxes = [...]struct {
	tells  []string
	syntax *syntax
}{
	{[]string{"<tool_call>"}, &hermes},
}

// syntaxOf returns how the models write calls that a template is for.
func syntaxOf(source string) *syntax {
	for _, s := range syntaxes {
		all := true
		for _, text := range s.tells {
			all = all && strings.Contains(source, text)
		}
		if all {
			return s.syntax
		}
	}
	return &hermes
}

// letters of ids
const idLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func randomLetters(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	for i := range b {
		b[i] = idLetters[int(b[i])%len(idLetters)]
	}
	return string(b)
}

// randomID makes an id as OpenAI's are.
func randomID() string { return "call_" + randomLetters(24) }
