package ask

import (
	"fmt"

	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/field"
)

// A samplerList is the field samplers: which are used, in their order.
type samplerList struct {
	given   bool
	letters string // if it was not given: those of the model's defaults, "" is all
}

const wantSamplers = "an array of names among penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, " +
	"temperature, infill, adaptive_p, in any order, or their letters such as edskypmxt"

func (l *samplerList) Take(r *field.Reader) error {
	letters := ""
	if r.Kind() == '"' {
		text, err := r.Text(wantSamplers)
		if err != nil {
			return err
		}
		for _, letter := range text {
			if sample.NameOf(letter) == "" {
				return fmt.Errorf("%q is no sampler, want %s", letter, wantSamplers)
			}
		}
		letters = text
	} else {
		err := r.Elements(wantSamplers, func(int) error {
			name, err := r.Text(wantSamplers)
			if err != nil {
				return err
			}
			letter, ok := sample.Named(name)
			if !ok {
				return fmt.Errorf("%s is no sampler, want %s", field.Quote(name), wantSamplers)
			}
			letters += string(letter)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(letters) > sample.MaxChain {
		return fmt.Errorf("%d samplers, want at most %d", len(letters), sample.MaxChain)
	}
	l.given, l.letters = true, letters
	return nil
}

func (l *samplerList) Value() any {
	letters := l.letters
	if letters == "" && !l.given {
		letters = sample.DefaultChain
	}
	shown := []string{}
	for _, letter := range letters {
		shown = append(shown, sample.NameOf(letter))
	}
	return shown
}

func (l *samplerList) Schema() field.Schema {
	return field.Schema{"description": wantSamplers,
		"anyOf": []field.Schema{{"type": "string"}, {"type": "array", "items": field.Schema{"type": "string"}}}}
}

// apply sets the chain of samplers.
func (l *samplerList) apply(p *sample.Params) {
	p.Chain = l.letters
	if l.given && l.letters == "" { // none at all
		p.Chain, p.Temp, p.DynRange = "t", 1, 0
	}
}

// breakers is the field dry_sequence_breakers.
type breakers struct{ field.Texts }

var wantBreakers = fmt.Sprintf("an array of at most %d texts of 1 to %d bytes", sample.MaxBreakers,
	sample.MaxBreakerLength)

func (b *breakers) Take(r *field.Reader) error {
	b.Texts = field.Texts{}
	return r.Elements(wantBreakers, func(i int) error {
		text, err := r.Text(wantBreakers)
		switch {
		case err != nil:
			return err
		case text == "" || len(text) > sample.MaxBreakerLength:
			return fmt.Errorf("element %d has %d bytes, want %s", i, len(text), wantBreakers)
		case i >= sample.MaxBreakers:
			return fmt.Errorf("more than %d, want %s", sample.MaxBreakers, wantBreakers)
		}
		b.Texts = append(b.Texts, text)
		return nil
	})
}

func (b *breakers) Schema() field.Schema {
	one := field.Schema{"type": "string", "minLength": 1, "maxLength": sample.MaxBreakerLength}
	return field.Schema{"type": "array", "items": one, "maxItems": sample.MaxBreakers}
}
