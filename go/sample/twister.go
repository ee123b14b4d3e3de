package sample

// A twister is the Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998), seeded as C++'s std::mt19937 is: by it llama.cpp draws, so
// the same seed draws the same tokens there.
type twister struct {
	state [twisterSize]uint32
	next  int
}

const (
	twisterSize  = 624
	twisterShift = 397
)

// seed begins the sequence of a seed. Of one of more than 32 bits the upper half changes the lower.
func (m *twister) seed(seed uint64) {
	m.state[0] = uint32(seed) ^ uint32(seed>>32)*2654435769
	for i := 1; i < twisterSize; i++ {
		before := m.state[i-1]
		m.state[i] = 1812433253*(before^before>>30) + uint32(i)
	}
	m.next = twisterSize
}

// twist makes the next state of all words.
func (m *twister) twist() {
	for i := range m.state {
		y := m.state[i]&0x80000000 | m.state[(i+1)%twisterSize]&0x7fffffff
		x := m.state[(i+twisterShift)%twisterSize] ^ y>>1
		if y&1 != 0 {
			x ^= 0x9908b0df
		}
		m.state[i] = x
	}
	m.next = 0
}

// word draws 32 bits.
func (m *twister) word() uint32 {
	if m.next == twisterSize {
		m.twist()
	}
	y := m.state[m.next]
	m.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// uniform32 draws from [0, 1), of one word, as std::uniform_real_distribution<float> does.
func (m *twister) uniform32() float32 {
	return min(float32(m.word())/(1<<32), 1-1.0/(1<<24))
}

// uniform draws from [0, 1), of two words, the lower first, as std::uniform_real_distribution<double> does.
func (m *twister) uniform() float64 {
	low := float64(m.word())
	u := (low + float64(float64(m.word())*(1<<32))) / (1 << 64)
	return min(u, 1-1.0/(1<<53)) // which rounding may have made 1
}
