package ask

import (
	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/reading"
)

// A Source is the input of a generation.
type Source struct {
	Prompts [][]int32
	Media   [][]engine.Medium // of each prompt
	Echo    []string          // nil: none
	Chat    *chat.Prompt      // nil: not a chat
	calls   *chat.CallRule    // that answers may have; nil: none
	Budget  budget            // of their reasoning

	Pictures, Sounds int // tokens of media
}

// Add adds a prompt.
func (s *Source) Add(p *reading.Prompt) {
	s.Prompts, s.Media = append(s.Prompts, p.IDs), append(s.Media, p.Media)
	s.Pictures += p.Used[chat.Picture]
	s.Sounds += p.Used[chat.Sound]
}
