package train

import "testing"

// Whatever the number of threads, each number is added to its own.
func TestPlus(t *testing.T) {
	const n = 3*plusShare + 5
	for _, threads := range []int{1, 4} {
		y, x := make([]float32, n), make([]float32, n)
		for i := range y {
			y[i], x[i] = float32(i), float32(2*i%1023)
		}
		plus(y, x, threads)
		for i := range y {
			if want := float32(i) + x[i]; y[i] != want {
				t.Fatalf("%d threads: number %d is %v, want %v", threads, i, y[i], want)
			}
		}
	}
}
