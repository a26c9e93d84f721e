//go:build !purego

#include "textflag.h"

// CLASS sets C to the classes of the bytes X, one bit each. Bytes from 0x80 on are wide, bit 7.
#define CLASS(X, C) \
	VSUB V27.B16, X.B16, V28.B16 \
	VTBL X.B16, [V16.B16, V17.B16, V18.B16, V19.B16], C.B16 \
	VTBL V28.B16, [V20.B16, V21.B16, V22.B16, V23.B16], V28.B16 \
	VAND V26.B16, X.B16, V29.B16 \
	VORR V28.B16, C.B16, C.B16 \
	VORR V29.B16, C.B16, C.B16

// EXCHANGE moves the bits of A and B selected by mask to E, those of B to the left by n. It moves the other bits to B,
// those of A to the right by n.
#define EXCHANGE(n, mask, A, B, E) \
	VSHL  $n, B.B16, E.B16 \
	VUSHR $n, A.B16, V28.B16 \
	VBIT  mask.B16, A.B16, E.B16 \
	VBIT  mask.B16, V28.B16, B.B16

// NIBBLES sets A to the lower and B to the upper halves of the bytes of X, then those of Y.
#define NIBBLES(X, Y, A, B) \
	VUZP1 Y.B16, X.B16, V28.B16 \
	VUZP2 Y.B16, X.B16, B.B16 \
	VMOV  V28.B16, A.B16 \
	VSLI  $4, B.B16, A.B16 \
	VSRI  $4, V28.B16, B.B16

#define SHRN28 WORD $0x0f0c879c // SHRN V28.8B, V28.8H, #4

// JOIN sets R to the top bits of four vectors whose bytes alternate. It changes B, C and D.
#define JOIN(A, B, C, D, R) \
	VSRI  $1, A.B16, B.B16 \
	VSRI  $1, C.B16, D.B16 \
	VSRI  $2, B.B16, D.B16 \
	VSRI  $4, D.B16, D.B16 \
	VMOV  D.B16, V28.B16 \
	SHRN28 \
	FMOVD F28, R

// func classifyKernel(m *masks, p *block)
// Looks up the classes of 64 bytes, and transposes the matrix of their bits.
TEXT ·classifyKernel(SB), NOSPLIT, $0-16
	MOVD  m+0(FP), R0
	MOVD  p+8(FP), R1
	MOVD  $·asciiClasses(SB), R2
	VLD4  (R1), [V0.B16, V1.B16, V2.B16, V3.B16] // byte k is in vector k%4
	VLD1.P 64(R2), [V16.B16, V17.B16, V18.B16, V19.B16]
	VLD1  (R2), [V20.B16, V21.B16, V22.B16, V23.B16]
	VMOVI $0x55, V24.B16
	VMOVI $0x33, V25.B16
	VMOVI $0x80, V26.B16
	VMOVI $64, V27.B16
	CLASS(V0, V4)
	CLASS(V1, V5)
	CLASS(V2, V6)
	CLASS(V3, V7)
	EXCHANGE(1, V24, V4, V5, V16) // V16 and V5: classes 0 2 4 6 and 1 3 5 7 of two bytes
	EXCHANGE(1, V24, V6, V7, V17)
	EXCHANGE(2, V25, V16, V17, V18) // V18 and V17: classes 0 4 and 2 6 of four bytes
	EXCHANGE(2, V25, V5, V7, V19) // V19 and V7: classes 1 5 and 3 7
	NIBBLES(V18, V19, V4, V6)     // classes 0 1 and 4 5
	NIBBLES(V17, V7, V5, V16)     // classes 2 3 and 6 7
	FSTPQ (F4, F5), (R0)          // upper lower digit blank
	FSTPQ (F6, F16), 32(R0)       // space newline apostrophe wide
	VMOV  V16.D[1], R2
	CBZ   R2, ascii
	VSHL  $1, V0.B16, V4.B16
	VSHL  $1, V1.B16, V5.B16
	VSHL  $1, V2.B16, V6.B16
	VSHL  $1, V3.B16, V7.B16
	JOIN(V4, V5, V6, V7, R4)
	JOIN(V0, V1, V2, V3, R2)
	BIC   R4, R2, R3              // 10 at the top
	AND   R4, R2, R4              // 11
	STP   (R3, R4), 64(R0)        // inside first
	RET

ascii:
	STP (ZR, ZR), 64(R0)
	RET
