package nn

import "slices"

// prompts reads what is put before texts, and to how many tokens they are cut.
func (k *Keys) prompts() {
	const names, texts, by = Own + "prompts.names", Own + "prompts.texts", Own + "prompts.default"
	c := k.Config
	c.MaxText = k.IntOr(Own+"max_seq_length", 0, 1, MaxCtx)
	if !k.Has(names) {
		return
	}
	var err error
	p := &c.Prompts
	p.Names, err = k.File.Strs(k.Name(names))
	k.Check(err)
	p.Texts, err = k.File.Strs(k.Name(texts))
	k.Check(err)
	if len(p.Texts) != len(p.Names) {
		k.Fail(texts, "%d elements, want one for each of the %d names", len(p.Texts), len(p.Names))
	}
	if !k.Has(by) {
		return
	}
	p.Default, err = k.File.Str(k.Name(by))
	k.Check(err)
	if !slices.Contains(p.Names, p.Default) {
		k.Fail(by, "%.40q is not one of the names %.200q", p.Default, p.Names)
	}
}
