//go:build !purego

#include "textflag.h"

// TWICE is a constant of 16 bytes, twice.
#define TWICE(name, low, high) \
	DATA name<>+0(SB)/8, low \
	DATA name<>+8(SB)/8, high \
	DATA name<>+16(SB)/8, low \
	DATA name<>+24(SB)/8, high \
	GLOBL name<>(SB), RODATA|NOPTR, $32

// What may be wrong, a bit each, by the upper and the lower half of a byte and the upper one of the next byte.
TWICE(first4, $0x0202020202020202, $0x4915012180808080)
TWICE(second4, $0xcbcbcb8b8383a3e7, $0xcbcbdbcbcbcbcbcb)
TWICE(third4, $0x0101010101010101, $0x01010101babaaee6)
TWICE(low4, $0x0f0f0f0f0f0f0f0f, $0x0f0f0f0f0f0f0f0f)

// What a byte that leads two or three more has beyond 0x80.
TWICE(third, $0x6060606060606060, $0x6060606060606060)
TWICE(fourth, $0x7070707070707070, $0x7070707070707070)
TWICE(top, $0x8080808080808080, $0x8080808080808080)

// The most that the last bytes may be where all characters end.
DATA ended<>+0(SB)/8, $0xffffffffffffffff
DATA ended<>+8(SB)/8, $0xffffffffffffffff
DATA ended<>+16(SB)/8, $0xffffffffffffffff
DATA ended<>+24(SB)/8, $0xbfdfefffffffffff
GLOBL ended<>(SB), RODATA|NOPTR, $32

// func validKernel(s *byte, n int) bool
// Whether the first n bytes, a multiple of 32, are UTF-8, perhaps without the end of the last character (Keiser, Lemire,
// Validating UTF-8 in less than one instruction per byte, 2020).
TEXT ·validKernel(SB), NOSPLIT, $0-17
	MOVQ s+0(FP), SI
	MOVQ n+8(FP), CX
	ADDQ SI, CX
	VPXOR Y0, Y0, Y0            // the bytes before
	VPXOR Y1, Y1, Y1            // errors
	VMOVDQU first4<>(SB), Y8
	VMOVDQU second4<>(SB), Y9
	VMOVDQU third4<>(SB), Y10
	VMOVDQU low4<>(SB), Y11
	VMOVDQU ended<>(SB), Y12
	VMOVDQU third<>(SB), Y13
	VMOVDQU fourth<>(SB), Y14
	VMOVDQU top<>(SB), Y15
loop:
	CMPQ SI, CX
	JGE  done
	PREFETCHT0 2048(SI)         // by itself the processor asks for nothing beyond a page
	VMOVDQU (SI), Y2
	ADDQ $32, SI
	VPTEST Y15, Y2
	JNE  wide
	VPSUBUSB Y12, Y0, Y3        // a character that ASCII breaks off
	VPOR Y3, Y1, Y1
	VMOVDQA Y2, Y0
	JMP  loop
wide:
	VPERM2I128 $0x21, Y2, Y0, Y3
	VPALIGNR $15, Y3, Y2, Y4    // one byte before
	VPALIGNR $14, Y3, Y2, Y5
	VPALIGNR $13, Y3, Y2, Y6
	VPSRLW $4, Y4, Y7
	VPAND Y11, Y7, Y7
	VPSHUFB Y7, Y8, Y7
	VPAND Y11, Y4, Y4
	VPSHUFB Y4, Y9, Y4
	VPAND Y4, Y7, Y7
	VPSRLW $4, Y2, Y4
	VPAND Y11, Y4, Y4
	VPSHUFB Y4, Y10, Y4
	VPAND Y4, Y7, Y7
	VPSUBUSB Y13, Y5, Y5
	VPSUBUSB Y14, Y6, Y6
	VPOR Y5, Y6, Y6
	VPAND Y15, Y6, Y6
	VPXOR Y6, Y7, Y7
	VPOR Y7, Y1, Y1
	VMOVDQA Y2, Y0
	JMP  loop
done:
	VPTEST Y1, Y1
	SETEQ ret+16(FP)
	VZEROUPPER
	RET
