package machine

import (
	"errors"
	"slices"
)

// Restrict removes all but ids from the allowed CPUs. It is an error if none remains.
func (m *Machine) Restrict(ids []int) error {
	left := 0
	for i := range m.CPUs {
		c := &m.CPUs[i]
		c.Allowed = c.Allowed && slices.Contains(ids, c.ID)
		if c.Allowed {
			left++
		}
	}
	m.restricted = true
	if left == 0 {
		return errors.New("this process may use none of these CPUs; \"quern doctor\" lists those that it may")
	}
	return nil
}
