package quantized

import (
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/safetensors"
)

// floats4 are the numbers of 4 bits with two of exponent and one of mantissa.
var floats4 = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, float32(math.Copysign(0, -1)), -0.5, -1, -1.5, -2, -3, -4, -6}

// fours reads a matrix of 4-bit floats, two in a byte, the first in its low bits. In NVFP4 each 16 of them have a scale of 8
// bits, which is divided by one of the matrix; in MXFP4 each 32 have an exponent.
func (r *reader) fours(base string) error {
	q, err := r.matrix(base, ".weight_packed", bytes)
	if err != nil {
		return err
	}
	rows, cols := q.Shape[0], 2*q.Shape[1]
	v := lang.View{Shape: []uint64{rows, cols}}
	if r.tensors.Tensor(base+".weight_global_scale") == nil {
		scale, err := r.blockScales(base, []safetensors.DType{safetensors.U8, safetensors.F8E8M0}, rows, cols, 32)
		if err != nil {
			return err
		}
		v.Read = coded(q, floats4, false, 32, exponents(scale))
		v.Held = []lang.Held{{Type: gguf.MXFP4, Exact: true, Bytes: mxfp4(q, scale)}}
		r.views[base+".weight"] = v
		return nil
	}
	scale, err := r.blockScales(base, []safetensors.DType{safetensors.F8E4M3}, rows, cols, 16)
	if err != nil {
		return err
	}
	whole, err := r.want(base, ".weight_global_scale", floats)
	if err != nil {
		return err
	}
	var by [1]float32
	if whole.Elems() != 1 {
		return fmt.Errorf("tensor %q has the shape %v, want one number", whole.Name, whole.Shape)
	}
	if err := whole.Floats(by[:], 0); err != nil {
		return err
	}
	v.Read = coded(q, floats4, false, 16, func(dst []float32, at uint64) error {
		err := scale.Floats(dst, at)
		for i := range dst {
			dst[i] /= by[0]
		}
		return err
	})
	if v.Held, err = heldNVFP4(q, scale, 1/by[0]); err != nil {
		return err
	}
	r.views[base+".weight"] = v
	return nil
}

// heldNVFP4 returns the blocks of NVFP4 of GGUF that hold a matrix, times a factor beside it: none if a scale has a sign or is
// not a number. The product of the three factors is rounded otherwise than the matrix' numbers, by F32's 2^-24.
func heldNVFP4(q, scale *safetensors.Tensor, factor float32) ([]lang.Held, error) {
	if x := float64(factor); math.IsInf(x, 0) || math.IsNaN(x) {
		return nil, nil
	}
	buf := make([]byte, min(scale.Elems(), 1<<20))
	for at := uint64(0); at < scale.Elems(); at += uint64(len(buf)) {
		buf = buf[:min(uint64(len(buf)), scale.Elems()-at)]
		if _, err := scale.ReadAt(buf, int64(at)); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(buf, func(x byte) bool { return x >= 0x7f }) {
			return nil, nil
		}
	}
	return []lang.Held{{Type: gguf.NVFP4, Exact: true, Bytes: nvfp4(q, scale), Scales: []float32{factor}}}, nil
}

// nvfp4 reads blocks of 64 numbers: four scales, then for each 16 numbers 8 bytes, which have one of the first half and one of
// the second.
func nvfp4(q, scale *safetensors.Tensor) func(dst []byte, at uint64) error {
	const elems, size = 64, 36
	return func(dst []byte, at uint64) error {
		n := len(dst) / size
		packed, scales := make([]byte, n*elems/2), make([]byte, n*4)
		if _, err := q.ReadAt(packed, int64(at/2)); err != nil {
			return err
		}
		if _, err := scale.ReadAt(scales, int64(at/16)); err != nil {
			return err
		}
		for ; len(dst) > 0; dst, packed, scales = dst[size:], packed[elems/2:], scales[4:] {
			copy(dst, scales[:4])
			for i := range elems / 2 {
				from := packed[i/8*8+i%8/2:]
				dst[4+i] = from[0]>>(i%2*4)&15 | from[4]>>(i%2*4)<<4
			}
		}
		return nil
	}
}

// blockScales returns the scales of blocks of a size in each row.
func (r *reader) blockScales(base string, types []safetensors.DType, rows, cols, size uint64) (*safetensors.Tensor, error) {
	if cols%size != 0 {
		return nil, fmt.Errorf("%q has %d columns, which are not of groups of %d", base, cols, size)
	}
	return r.want(base, ".weight_scale", types, rows, cols/size)
}

// exponents reads scales that are powers of 2.
func exponents(t *safetensors.Tensor) func(dst []float32, at uint64) error {
	as := *t
	as.DType = safetensors.F8E8M0
	return as.Floats
}

// mxfp4 reads blocks of MXFP4 of GGUF, whose bytes have one number of the first half of the block and one of the second.
func mxfp4(q, scale *safetensors.Tensor) func(dst []byte, at uint64) error {
	blocks := lang.View{Shape: []uint64{1, q.Shape[0], q.Shape[1] / 16, 16}, Bytes: raw(q)}
	scales := lang.View{Shape: append([]uint64{1}, scale.Shape...), Bytes: raw(scale)}
	made, err := lang.MXFP4(nil, []lang.View{blocks, scales})
	if err != nil {
		return func([]byte, uint64) error { return err }
	}
	return made[0].Bytes
}

// raw returns the reader of a tensor of bytes.
func raw(t *safetensors.Tensor) func(dst []byte, at uint64) error {
	return func(dst []byte, at uint64) error {
		_, err := t.ReadAt(dst, int64(at))
		return err
	}
}

// coded returns the reader of numbers of 4 bits that stand for those of a table, times the scale of each block of size
// numbers. highFirst says that of two in a byte the first is in the high bits.
func coded(q *safetensors.Tensor, table [16]float32, highFirst bool, size uint64,
	scales func(dst []float32, at uint64) error) func(dst []float32, at uint64) error {
	first, second := uint64(0), uint64(4)
	if highFirst {
		first, second = second, first
	}
	return func(dst []float32, at uint64) error {
		if len(dst) == 0 {
			return nil
		}
		end := at + uint64(len(dst))
		packed := make([]byte, (end+1)/2-at/2)
		if _, err := q.ReadAt(packed, int64(at/2)); err != nil {
			return err
		}
		factors := make([]float32, (end-1)/size-at/size+1)
		if err := scales(factors, at/size); err != nil {
			return err
		}
		for i := range dst {
			n := at + uint64(i)
			b := packed[n/2-at/2]
			code := b >> first
			if n%2 == 1 {
				code = b >> second
			}
			dst[i] = table[code&15] * factors[n/size-at/size]
		}
		return nil
	}
}
