package nn

import "github.com/quern-llm/quern/go/kernel"

// around is the buffer of what experts add to the residual later.
func (l Layer) around() kernel.Buf { return l.Floats("around", kernel.TokRows, l.Config.NEmbd) }

// same is the buffer of the input of experts, which some of them return.
func (l Layer) same() kernel.Buf { return l.Floats("same", kernel.TokRows, l.Config.NEmbd) }

// ExpertsAround adds x += h(norm(x)), and keeps the sum of the experts of that norm for AddAround, in a later layer
// (Cai et al. 2024, "Shortcut-connected Expert Parallelism").
func (l Layer) ExpertsAround(norm string, e Experts, h Sublayer) {
	experts := l.Experts(e)
	l.Residual(norm, Sublayer{In: experts.In, Run: func(act kernel.Act) {
		if l.Config.NSame > 0 {
			l.Normed(l.same(), l.X(), kernel.TokRows, norm)
		}
		residuals := l.residuals
		l.residuals, l.storeNext = "around", true
		experts.Run(act)
		l.residuals = residuals
	}}, h)
}

// AddAround adds what ExpertsAround has kept to the residual.
func (l Layer) AddAround() { l.copied(l.X(), 0, l.around(), kernel.Add) }

// ReturningExperts reads how many experts return their input.
func (k *Keys) ReturningExperts() {
	k.Config.NSame = k.IntOr("zero_expert_count", 0, 0, maxExpert-k.Config.NExpert)
}
