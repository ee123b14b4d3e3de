package picture

import (
	"fmt"
	"image"
	"image/color"
)

// toRGB returns the pixels of a decoded picture on a canvas of the size that its header has. Only a GIF's first frame may be
// smaller; what it leaves free has the background's colour.
func toRGB(img image.Image, c image.Config, limited bool) (*RGB, error) {
	p := &RGB{Width: c.Width, Height: c.Height, Pix: make([]byte, 3*c.Width*c.Height)}
	at := img.Bounds()
	if at.Min.X < 0 || at.Min.Y < 0 || at.Max.X > c.Width || at.Max.Y > c.Height || at.Empty() {
		return nil, fmt.Errorf("a frame at %v of %d x %d pixels", at, c.Width, c.Height)
	}
	if pal, ok := img.(*image.Paletted); ok && at.Size() != image.Pt(c.Width, c.Height) && len(pal.Palette) > 0 {
		r, g, b := opaque(pal.Palette[0])
		for i := 0; i < len(p.Pix); i += 3 {
			p.Pix[i], p.Pix[i+1], p.Pix[i+2] = r, g, b
		}
	}
	row, err := rowsOf(img, limited)
	if err != nil {
		return nil, err
	}
	for y := range at.Dy() {
		row(y, p.Pix[3*((at.Min.Y+y)*c.Width+at.Min.X):][:3*at.Dx()])
	}
	return p, nil
}

// rowsOf returns a function that writes row y, counted from the top of the bounds, as RGB.
func rowsOf(img image.Image, limited bool) (func(y int, dst []byte), error) {
	switch m := img.(type) {
	case *image.Gray:
		return packed(m.Pix, m.Stride, 1, [3]int{0, 0, 0}), nil
	case *image.Gray16:
		return packed(m.Pix, m.Stride, 2, [3]int{0, 0, 0}), nil
	case *image.RGBA: // of files without transparency
		return packed(m.Pix, m.Stride, 4, [3]int{0, 1, 2}), nil
	case *image.NRGBA:
		return packed(m.Pix, m.Stride, 4, [3]int{0, 1, 2}), nil
	case *image.RGBA64:
		return packed(m.Pix, m.Stride, 8, [3]int{0, 2, 4}), nil
	case *image.NRGBA64:
		return packed(m.Pix, m.Stride, 8, [3]int{0, 2, 4}), nil
	case *image.Paletted:
		var table [256][3]byte
		for i, c := range m.Palette {
			table[i][0], table[i][1], table[i][2] = opaque(c)
		}
		return func(y int, dst []byte) {
			for x, i := range m.Pix[y*m.Stride:][:len(dst)/3] {
				copy(dst[3*x:], table[i][:])
			}
		}, nil
	case *image.CMYK:
		return func(y int, dst []byte) {
			for src := m.Pix[y*m.Stride:]; len(dst) > 0; dst, src = dst[3:], src[4:] {
				for i := range 3 {
					dst[i] = mul255(255-src[i], 255-src[3])
				}
			}
		}, nil
	case *image.YCbCr:
		return planes(m, limited), nil
	case *image.NYCbCrA:
		return planes(&m.YCbCr, limited), nil
	}
	return nil, fmt.Errorf("pixels of %T", img)
}

// packed returns rows of pixels of so many bytes, of which three are red, green and blue.
func packed(pix []byte, stride, size int, at [3]int) func(y int, dst []byte) {
	return func(y int, dst []byte) {
		for src := pix[y*stride:]; len(dst) > 0; dst, src = dst[3:], src[size:] {
			dst[0], dst[1], dst[2] = src[at[0]], src[at[1]], src[at[2]]
		}
	}
}

// opaque returns a colour without its transparency.
func opaque(c color.Color) (r, g, b byte) {
	n, ok := c.(color.NRGBA)
	if !ok {
		n = color.NRGBAModel.Convert(c).(color.NRGBA)
	}
	return n.R, n.G, n.B
}

// mul255 returns the product of two fractions of 255, rounded.
func mul255(a, b byte) byte {
	t := uint32(a)*uint32(b) + 128
	return byte((t + t>>8) >> 8)
}

// planes returns rows of a picture in luma and chroma planes. Chroma of half a side is interpolated with weights 3/4 and 1/4
// between its two nearest samples, as libjpeg and libwebp do, each with its rounding.
func planes(m *image.YCbCr, limited bool) func(y int, dst []byte) {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	across, down := 1, 1
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio422:
		across = 2
	case image.YCbCrSubsampleRatio420:
		across, down = 2, 2
	case image.YCbCrSubsampleRatio440:
		down = 2
	case image.YCbCrSubsampleRatio411:
		across = 4
	case image.YCbCrSubsampleRatio410:
		across, down = 4, 2
	}
	cw, ch := (w+across-1)/across, (h+down-1)/down
	raise, convert := raiseJPEG, fullRange
	if limited {
		raise, convert = raiseWebP, videoRange
	}
	cb, cr := make([]byte, w+across), make([]byte, w+across)
	sums := make([]int, cw)
	return func(y int, dst []byte) {
		near, other := y/down, y/down
		if down == 2 {
			other = min(max(near-1+2*(y&1), 0), ch-1)
		}
		for _, c := range []struct{ from, to []byte }{{m.Cb, cb}, {m.Cr, cr}} {
			raise(c.to, c.from[near*m.CStride:][:cw], c.from[other*m.CStride:][:cw], sums, across, down, y&1)
		}
		for x, l := range m.Y[y*m.YStride:][:w] {
			convert(dst[3*x:][:3], int(l), int(cb[x]), int(cr[x]))
		}
	}
}

// raiseJPEG writes a row of chroma with `across` columns for each sample, from the nearest row and the other one beside it;
// low is 1 for a row of the picture that lies in the lower half of the nearest one.
func raiseJPEG(dst, near, other []byte, sums []int, across, down, low int) {
	n := len(near)
	switch {
	case across == 1 && down == 1:
		copy(dst, near)
	case across == 1:
		for i := range near {
			dst[i] = byte((3*int(near[i]) + int(other[i]) + 1 + low) >> 2)
		}
	case across == 2 && n > 2:
		// In units of 1/4 (one direction) or 1/16 (two), with halves rounded up and down in turns.
		shift, up, below := 2, 1, 2
		for i := range near {
			sums[i] = int(near[i])
		}
		if down == 2 {
			shift, up, below = 4, 8, 7
			for i := range near {
				sums[i] = 3*int(near[i]) + int(other[i])
			}
		}
		for i, s := range sums {
			before, after := sums[max(i-1, 0)], sums[min(i+1, n-1)]
			dst[2*i], dst[2*i+1] = byte((3*s+before+up)>>shift), byte((3*s+after+below)>>shift)
		}
	default: // copies, of narrow pictures and ratios that libjpeg does not interpolate
		for i, v := range near {
			for j := range across {
				dst[across*i+j] = v
			}
		}
	}
}

// raiseWebP is raiseJPEG for planes of half a width and half a height, which are all that WebP has.
func raiseWebP(dst, near, other []byte, _ []int, _, _, _ int) {
	n := len(near)
	edge := func(i int) byte { return byte((3*int(near[i]) + int(other[i]) + 2) >> 2) }
	dst[0], dst[2*n-1] = edge(0), edge(n-1)
	for i := 1; i < n; i++ {
		a, b, c, d := int(near[i-1]), int(near[i]), int(other[i-1]), int(other[i])
		sum := a + b + c + d + 8
		dst[2*i-1] = byte(((sum+2*(b+c))>>3 + a) >> 1)
		dst[2*i] = byte(((sum+2*(a+d))>>3 + b) >> 1)
	}
}

// fullRange writes a pixel as RGB by JFIF's matrix, in fixed point of 16 bits.
func fullRange(dst []byte, y, cb, cr int) {
	const half = 1 << 15
	cb, cr = cb-128, cr-128
	dst[0] = clamp(y + (91881*cr+half)>>16)           // 1.402
	dst[1] = clamp(y + (-22554*cb-46802*cr+half)>>16) // 0.344136, 0.714136
	dst[2] = clamp(y + (116130*cb+half)>>16)          // 1.772
}

// videoRange writes a pixel as RGB by the matrix of BT.601 for luma of 16 to 235, in fixed point of 14 bits of which 8 go with
// each product.
func videoRange(dst []byte, y, u, v int) {
	l := y * 19077 >> 8 // 1.164
	dst[0] = clamp((l + v*26149>>8 - 14234) >> 6)
	dst[1] = clamp((l - u*6419>>8 - v*13320>>8 + 8708) >> 6)
	dst[2] = clamp((l + u*33050>>8 - 17685) >> 6)
}

func clamp(v int) byte { return byte(min(max(v, 0), 255)) }
