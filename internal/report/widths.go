package report

// textSize is the size of all text in a drawing, in its own units.
const textSize = 12

// advances are the widths of the characters from space to tilde in Liberation Sans, in 1/2048 of the text size, without kerning. Arial and Helvetica are
// as wide.
var advances = [...]uint16{
	569, 569, 727, 1139, 1139, 1821, 1366, 391, 682, 682, 797, 1196, 569, 682, 569, 569,
	1139, 1139, 1139, 1139, 1139, 1139, 1139, 1139, 1139, 1139, 569, 569, 1196, 1196, 1196, 1139,
	2079, 1366, 1366, 1479, 1479, 1366, 1251, 1593, 1479, 569, 1024, 1366, 1139, 1706, 1479, 1593,
	1366, 1593, 1479, 1366, 1251, 1479, 1366, 1933, 1366, 1366, 1251, 569, 569, 569, 961, 1139,
	682, 1139, 1139, 1024, 1139, 1139, 569, 1139, 1139, 455, 455, 1024, 455, 1706, 1139, 1139,
	1139, 1139, 682, 1024, 569, 1139, 1024, 1479, 1024, 1024, 1024, 684, 532, 684, 1196,
}

const unitsPerEm = 2048

// textWidth is how wide a text is in a drawing. Characters beyond the table count as wide ones.
func textWidth(s string) float64 {
	units := 0
	for _, r := range s {
		if k := int(r) - ' '; k >= 0 && k < len(advances) {
			units += int(advances[k])
		} else {
			units += unitsPerEm
		}
	}
	return float64(units) / unitsPerEm * textSize
}
