package sample

import "bytes"

// Infill is what the infill sampler has to know of a vocabulary.
type Infill struct {
	Piece func(id int32) []byte // the bytes of a token
	Ends  func(id int32) bool   // whether it ends the text
	End   int32                 // the token to end the text with
}

const (
	maxInfill   = 256 // candidates, besides those that end the text: each is compared with each
	leastInfill = 0.2 // probability, after merging, of tokens that go on
)

// infill ends the text soon: if ending it is likely enough among that number of candidates,
// nothing else remains. Otherwise tokens that begin alike count as one, and those
// that are likely then remain, with those that end the text.
func (s *Sampler) infill() {
	in := s.params.Infill
	s.list()
	top, sum, _ := s.sums()
	n := float64(len(s.kept))
	ends := 0.0
	for _, t := range s.kept {
		if in.Ends(t.ID) {
			ends += s.weight(t, top) / sum
		}
	}
	sortTokens(s.kept)
	s.chances = s.chances[:0]
	count := 0
	only := float64(3*ends)*n > 1-ends
	kept := s.kept[:0]
	for _, t := range s.kept {
		if !in.Ends(t.ID) {
			if count++; only || count > maxInfill {
				continue
			}
		}
		kept = append(kept, t)
		s.chances = append(s.chances, s.weight(t, top)/sum)
	}
	s.kept = kept
	if only {
		return
	}
	best := s.kept[0]
	s.mergePrefixes()
	going := s.keepLikely(leastInfill)
	if going == 0 {
		if s.mayEnd {
			best = token{ID: in.End, Logit: 1}
		}
		s.kept = append(s.kept[:0], best)
		return
	}
	s.keepLikely(1 / float64(going+1))
}

// mergePrefixes adds the probability of one of each two candidates, of which one is a
// prefix of the other, to the likelier; the other's becomes -1.
func (s *Sampler) mergePrefixes() {
	p := s.chances
	for i := range s.kept {
		own := s.params.Infill.Piece(s.kept[i].ID)
		for j := 0; j < len(s.kept) && p[i] >= 0 && len(own) > 0; j++ {
			if i == j || p[j] < 0 || !bytes.HasPrefix(s.params.Infill.Piece(s.kept[j].ID), own) {
				continue
			}
			to, from := i, j
			if p[j] > p[i] {
				to, from = j, i
			}
			p[to] += p[from]
			p[from] = -1
		}
	}
}

// keepLikely drops the merged, and the less likely that do not end the text, relative to
// all that are left, and returns how many remain that go on.
func (s *Sampler) keepLikely(least float64) (going int) {
	n, sum := 0, 0.0
	for i, t := range s.kept {
		ends := s.params.Infill.Ends(t.ID)
		if s.chances[i] < 0 || s.chances[i] < least && !ends {
			continue
		}
		if !ends {
			going++
		}
		sum += s.chances[i]
		s.kept[n], s.chances[n] = t, s.chances[i]
		n++
	}
	s.kept, s.chances = s.kept[:n], s.chances[:n]
	for i := range s.chances {
		s.chances[i] /= sum
	}
	return going
}
