package projector

import "math"

// Embeddings of positions for grids of other sizes than that of the training, as torch's interpolate makes them.

// A share is how much of a row or a column of a table one of another size has.
type share struct {
	from int
	by   float32
}

// A resampling says of which shares rows or columns are made.
type resampling [][]share

// triangles is the resampling of n to m by triangles, as wide as what becomes one where that is more than one: "bilinear"
// with antialiasing.
func triangles(n, m int) resampling {
	return smooth(n, m, 1, func(x float64) float64 { return max(1-x, 0) })
}

// smoothCubics is the same by cubic splines: "bicubic" with antialiasing.
func smoothCubics(n, m int) resampling {
	const a = -0.5
	return smooth(n, m, 2, func(x float64) float64 {
		switch {
		case x < 1:
			return float64((float64((a+2)*x)-(a+3))*x*x) + 1
		case x < 2:
			return float64((float64((float64(a*x)-5*a)*x)+8*a)*x) - 4*a
		}
		return 0
	})
}

// smooth is the resampling of n to m by a filter of a distance, beyond which it is 0.
func smooth(n, m int, beyond float64, filter func(x float64) float64) resampling {
	scale := float64(n) / float64(m)
	wide := max(scale, 1)
	support := beyond * wide
	made := make(resampling, m)
	for i := range made {
		middle := scale * (float64(i) + 0.5)
		from, to := max(int(middle-support+0.5), 0), min(int(middle+support+0.5), n)
		sum, weights := 0.0, []float64{}
		for at := from; at < to; at++ {
			w := filter(math.Abs((float64(at) - middle + 0.5) / wide))
			weights = append(weights, w)
			sum += w
		}
		for j, w := range weights {
			made[i] = append(made[i], share{from + j, float32(w / sum)})
		}
	}
	return made
}

// lines is the resampling of n to m by lines between 2 neighbours: "bilinear".
func lines(n, m int) resampling { return linesBy(n, m, float64(m)) }

// linesBy is lines with the scale of one to `as`.
func linesBy(n, m int, as float64) resampling {
	made := make(resampling, m)
	for i := range made {
		middle := max(float64((float64(i)+0.5)*float64(n)/as)-0.5, 0)
		at := min(int(middle), n-1)
		by := float32(middle - float64(at))
		made[i] = []share{{at, 1 - by}, {min(at+1, n-1), by}}
	}
	return made
}

// cubics is the resampling of n to m by cubic splines through 4 neighbours, the last of which stand for those beyond:
// "bicubic".
func cubics(n, m int) resampling {
	const a = -0.75
	near := func(x float64) float64 { return float64((float64((a+2)*x)-(a+3))*x*x) + 1 }
	far := func(x float64) float64 { return float64((float64((float64(a*x)-5*a)*x)+8*a)*x) - 4*a }
	made := make(resampling, m)
	for i := range made {
		middle := float64((float64(i)+0.5)*float64(n)/float64(m)) - 0.5
		at := int(math.Floor(middle))
		t := middle - float64(at)
		for j, w := range [4]float64{far(t + 1), near(t), near(1 - t), far(2 - t)} {
			made[i] = append(made[i], share{min(max(at-1+j, 0), n-1), float32(w)})
		}
	}
	return made
}

// addAt adds what the square of rows that the table is has at a place of a resampled one.
func (t table) addAt(dst []float32, x, y []share) {
	side := t.side()
	for _, down := range y {
		for _, across := range x {
			t.add(dst, down.from*side+across.from, float32(down.by*across.by))
		}
	}
}
