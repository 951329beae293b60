(** * The rationals as numbers, kept in lowest terms, for computing laws *)

From Coq Require Import QArith.
From SpectrVerify Require Import Laws.

#[export] Instance Q_number : Number Q := {
  zero := 0;
  one := 1;
  add x y := Qred (x + y);
  sub x y := Qred (x - y);
  mul x y := Qred (x * y);
  div x y := Qred (x / y);
  leb := Qle_bool
}.
