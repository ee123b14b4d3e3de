package quota

import (
	"math"
	"time"
)

// A meter counts one thing by minute and by day, and says what is left of the limits.
type meter struct {
	minute bucket
	today  int64 // of the day, and what earlier days were over the limit
}

// A bucket is a token bucket: what was taken from it flows back within a minute, continuously. More may be taken than it
// has: that is a debt.
type bucket struct {
	used float64
	at   time.Time // of used
}

// flow brings the bucket up to date. Without a limit it is full. The time between two readings of now is monotonic.
func (b *bucket) flow(limit int64, now time.Time) {
	if limit == 0 {
		b.used = 0
	} else {
		b.used = max(0, b.used-now.Sub(b.at).Minutes()*float64(limit))
	}
	b.at = now
}

// A Quota is the state of a limit.
type Quota struct {
	Limit, Left int64         // Left is 0 where there is a debt
	Reset       time.Duration // until all is left again
	daily       bool
	missing     float64 // of a whole unit, and of the debt: what has to flow back until one is left
}

// quotas returns the limits that there are, of the minute and of the day, which ends after a time.
func (m *meter) quotas(minute, day int64, ends time.Duration) (all []Quota) {
	if minute > 0 {
		left := float64(minute) - m.minute.used
		all = append(all, Quota{Limit: minute, Left: max(0, floor(left)), missing: 1 - left,
			Reset: waitFor(m.minute.used, minute)})
	}
	if day > 0 {
		left := day - m.today
		all = append(all, Quota{Limit: day, Left: max(0, left), Reset: ends, daily: true, missing: float64(1 - left)})
	}
	return all
}

// after is how long it takes until n are left: of a day that has fewer, until the next day.
func (q *Quota) after(n int64) time.Duration {
	if q.daily {
		return q.Reset
	}
	return waitFor(q.missing+float64(n-1), q.Limit)
}

// waitFor is how long n flow back.
func waitFor(n float64, limit int64) time.Duration {
	return time.Duration(math.Ceil(n / float64(limit) * float64(time.Minute)))
}

// floor forgives what floats lose: a bucket that was filled has its last unit.
func floor(left float64) int64 { return int64(math.Floor(left + 1e-6)) }

// take counts n; below 0: they are given back.
func (m *meter) take(n int64, limited bool) {
	if limited {
		m.minute.used = max(0, m.minute.used+float64(n))
	}
	m.today = max(0, m.today+n)
}

// nextDay forgets what was counted for some days, but for a debt, which each of them pays off.
func (m *meter) nextDay(days, limit int64) {
	if limit == 0 || days > m.today/limit {
		m.today = 0
		return
	}
	m.today = max(0, m.today-days*limit)
}

// least returns the quota of which the least is left; false: there is none.
func least(all []Quota) (found Quota, ok bool) {
	for _, q := range all {
		if !ok || q.Left < found.Left {
			found, ok = q, true
		}
	}
	return found, ok
}
