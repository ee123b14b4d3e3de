package chat

// Thoughts is how reasoning comes before the content of a reply.
type Thoughts struct {
	Open, Shut string // around it
	Begun      bool   // the prompt has opened it; otherwise the model may
}

// Thoughts returns how reasoning comes before the content of a reply; false where none
// does.
func (p Prompt) Thoughts() (Thoughts, bool) {
	r := &p.reply
	if r.style == nil || r.once || r.trim || r.state != beginning && r.state != reasoning {
		return Thoughts{}, false
	}
	return Thoughts{r.style.open, r.style.shut, r.state == reasoning}, true
}
