package launch

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/tokenizer"
)

// readDrafter reads the head of the draft model that the settings name, if any, and returns an error where it
// cannot draft for the model. Layers that were trained for the model become part of its file, if their drafts
// are wanted.
func (f *Files) readDrafter(h *Head) error {
	path := h.Settings.Draft.Path
	if path == "" {
		return nil
	}
	file, err := f.Open(path, h.Settings.Quantize)
	if err != nil {
		return err
	}
	if !file.IsHead() {
		d, err := f.newHead(path, file, Settings{NoProjector: true}, true)
		if err != nil {
			return err
		}
		h.drafter = d // from here on it is closed with h
		if d.Config.OnePass() {
			return fmt.Errorf("%s: the draft model reads whole texts and cannot continue one, want one that generates", path)
		}
		return nil
	}
	if h.joined = true; h.ownLayersDraft() {
		if err = h.join(file); err == nil {
			return nil // it is closed with the model's file
		}
	}
	file.Close()
	return err
}

// ownLayersDraft reports whether layers that read the model's hidden states are to draft: its own, or those that
// were trained for it.
func (h *Head) ownLayersDraft() bool {
	if h.joined {
		return h.Settings.Draft.Sources.Has(draft.Head)
	}
	return h.Settings.Draft.Sources.Has(draft.MTP)
}

// join makes layers part of the model that they draft for, if they were made for one with its vocabulary.
func (h *Head) join(layers *model.File) error {
	if _, ok := layers.GGUF.Value("tokenizer.ggml.tokens"); ok {
		if err := h.readTokenizer(); err != nil {
			return err
		}
		own, err := tokenizer.New(layers.GGUF)
		if err == nil {
			err = sameTokens(own, h.Tokenizer)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", h.Settings.Draft.Path, err)
		}
	}
	if err := h.File.DraftBy(layers); err != nil {
		return err
	}
	var err error
	h.Config, err = h.File.Config()
	return err
}

// draftCtx is the context with which a draft model has to fit at least, if its own is as long: a longer text has
// no drafts by it from there on.
const draftCtx = 4096

// drafterConfig returns how the draft model is opened for a model that is opened with c, for texts of up to ctx
// tokens.
func (h *Head) drafterConfig(c engine.Config, ctx int) engine.Config {
	return engine.Config{
		Device: c.Device, Ctx: min(ctx, h.drafter.Config.NCtx), Batch: c.Batch, KV: c.KV,
		Sequences: c.Sequences, Shared: c.Shared, Until: c.Until,
	}
}

// drafterNeeds returns the memory that the draft model takes at least beside a model that is opened with c, in
// a budget; 0 if there is none.
func (h *Head) drafterNeeds(c engine.Config, b *mem.Budget, threads int) (uint64, error) {
	if h.drafter == nil {
		return 0, nil
	}
	p, err := engine.NewPlan(h.drafter.File, b, threads, h.drafterConfig(c, min(cmp.Or(c.Ctx, draftCtx), draftCtx)))
	if err != nil {
		return 0, h.drafter.unfit(err)
	}
	return p.Need.Total(), nil
}

// setAside reserves memory for the draft model while the model that is opened with c is loaded.
func (h *Head) setAside(c engine.Config) (aside *mem.Reservation, bytes uint64, err error) {
	b := c.Device.Budget()
	if bytes, err = h.drafterNeeds(c, b, c.Device.Threads()); err != nil {
		return nil, 0, err
	}
	if aside, err = b.Reserve("a draft model", bytes); err != nil {
		return nil, 0, h.drafter.unfit(err)
	}
	return aside, bytes, nil
}

// unfit makes the refusal of a draft model of one.
func (h *Head) unfit(err error) error {
	if fit := (*engine.FitError)(nil); errors.As(err, &fit) {
		fit.Advice = []string{"no draft model (without --model-draft)", "a smaller one"}
		err = fit
	}
	if strings.HasPrefix(err.Error(), h.Path+": ") {
		return err
	}
	return fmt.Errorf("the draft model %s: %w", h.Path, err)
}

// beside adds to the refusal of the model, for whose draft model so many bytes are kept free, that it might fit
// without.
func (h *Head) beside(err error, bytes uint64) error {
	fit := (*engine.FitError)(nil)
	if bytes == 0 || !errors.As(err, &fit) || fit.Need.Total() > fit.Free+bytes {
		return err
	}
	less := fmt.Sprintf("no draft model, which needs %s (without --model-draft)", mem.FormatBytes(bytes))
	fit.Advice = append(fit.Advice, less)
	return fmt.Errorf("%s: %w", h.Path, fit)
}

// openDrafter has the draft model, if there is one, draft for an engine that was opened with c. The draft
// model's engine is to be closed before the other.
func (h *Head) openDrafter(eng *engine.Engine, c engine.Config, e Events) (*engine.Engine, error) {
	d := h.drafter
	if d == nil {
		return nil, nil
	}
	if err := h.readTokenizer(); err != nil {
		return nil, err
	}
	c.Batch = eng.Batch()
	own := h.drafterConfig(c, eng.Ctx())
	for { // as long a context as there is memory for
		_, err := engine.NewPlan(d.File, c.Device.Budget(), c.Device.Threads(), own)
		if err == nil || own.Ctx <= draftCtx {
			break
		}
		own.Ctx = max(own.Ctx/2, draftCtx)
	}
	drafts, err := engine.New(d.File, own)
	if err != nil {
		return nil, d.unfit(err)
	}
	if differ := SameVocabulary(d.Tokenizer, h.Tokenizer); differ != nil {
		e.note("the draft model %s drafts by text: %v", d.Path, differ)
		words, theirs := tokenizer.Spelling{Tokenizer: h.Tokenizer}, tokenizer.Spelling{Tokenizer: d.Tokenizer}
		err = eng.DraftByText(drafts, words, theirs, e.failed)
	} else {
		err = eng.DraftWith(drafts, e.failed)
	}
	if err != nil {
		drafts.Close()
		return nil, fmt.Errorf("%s: %w", d.Path, err)
	}
	return drafts, nil
}

// padding is how many tokens one vocabulary may have more than another that is the same.
const padding = 128

// SameVocabulary returns an error unless ids mean the same in both.
func SameVocabulary(drafts, tok *tokenizer.Tokenizer) error {
	n, m := drafts.Len(), tok.Len()
	if n > m+padding || m > n+padding {
		return fmt.Errorf("its vocabulary has %d tokens and the model's %d", n, m)
	}
	return sameTokens(drafts, tok)
}

// sameTokens returns an error unless ids that both vocabularies have mean the same.
func sameTokens(drafts, tok *tokenizer.Tokenizer) error {
	for id := range int32(min(drafts.Len(), tok.Len())) {
		if a, b := drafts.Token(id), tok.Token(id); a != b {
			return fmt.Errorf("in its vocabulary token %d is %q, in the model's %q", id, a, b)
		}
	}
	return nil
}
