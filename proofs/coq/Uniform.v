(** * The smallest of independent uniform numbers

    The probability that the uniform number on one interval is smaller than those on the others: the mean, over that
    interval, of the product of the others' survival functions. Riemann's integral of the standard library, of
    continuous functions. *)

From Coq Require Import List Arith Bool Reals Lra Lia.
From SpectrVerify Require Import Laws Rules Means.
Import ListNotations.
Open Scope R_scope.

(** ** Continuous functions and their integrals *)

Record continuous_function := {
  value :> R -> R;
  value_continuous : continuity value
}.

Lemma integrable (f : continuous_function) (a b : R) : Riemann_integrable f a b.
Proof.
  destruct (Rle_dec a b) as [H | H].
  - apply continuity_implies_RiemannInt; [exact H |]. intros x _. apply value_continuous.
  - apply RiemannInt_P1, continuity_implies_RiemannInt; [lra |]. intros x _. apply value_continuous.
Qed.

Definition integral (f : continuous_function) (a b : R) : R := RiemannInt (integrable f a b).

Lemma integral_join f a b c : integral f a b + integral f b c = integral f a c.
Proof. apply RiemannInt_P26. Qed.

Lemma integral_empty f a : integral f a a = 0.
Proof. apply RiemannInt_P9. Qed.

Lemma integral_ext (f g : continuous_function) a b : a <= b -> (forall x, a < x < b -> f x = g x) ->
  integral f a b = integral g a b.
Proof. intros H Hfg. now apply RiemannInt_P18. Qed.

Definition constant_function (k : R) : continuous_function :=
  {| value := fct_cte k; value_continuous := continuity_const (fct_cte k) (fun x y => eq_refl) |}.

Lemma integral_constant k a b : integral (constant_function k) a b = k * (b - a).
Proof. apply RiemannInt_P15. Qed.

Program Definition plus_scaled (f : continuous_function) (k : R) (g : continuous_function) : continuous_function :=
  {| value := fun x => f x + k * g x |}.
Next Obligation.
  apply continuity_plus; [apply value_continuous |].
  apply continuity_scal, value_continuous.
Qed.

Lemma integral_plus_scaled f k g a b : integral (plus_scaled f k g) a b = integral f a b + k * integral g a b.
Proof. apply (RiemannInt_P13 (f := f) (g := g)). Qed.

Program Definition times (f g : continuous_function) : continuous_function := {| value := fun x => f x * g x |}.
Next Obligation. apply continuity_mult; apply value_continuous. Qed.

(** The mean of finitely many functions. *)
Fixpoint mean_function {A} (d : law R A) (f : A -> continuous_function) : continuous_function :=
  match d with
  | [] => constant_function 0
  | (w, a) :: d' => plus_scaled (mean_function d' f) w (f a)
  end.

Lemma mean_function_value {A} (d : law R A) f x : mean_function d f x = mean d (fun a => f a x).
Proof.
  induction d as [| [w a] d IH]; [reflexivity |]. rewrite mean_cons, <- IH. simpl. ring.
Qed.

Lemma integral_mean {A} (d : law R A) f a b :
  integral (mean_function d f) a b = mean d (fun u => integral (f u) a b).
Proof.
  induction d as [| [w u] d IH].
  - simpl. rewrite integral_constant. unfold mean. rewrite sum_nil. reals. ring.
  - rewrite mean_cons, <- IH. simpl. rewrite integral_plus_scaled. ring.
Qed.

(** ** Powers of 1 - s *)

Program Definition power_function (n : nat) : continuous_function := {| value := fun s => (1 - s) ^ n |}.
Next Obligation.
  apply derivable_continuous. intros s. apply derivable_pt_comp with (f2 := fun x => x ^ n); [| apply derivable_pt_pow].
  apply derivable_pt_minus; [apply derivable_pt_const | apply derivable_pt_id].
Qed.

Lemma power_derivative n s : derivable_pt_lim (fun s => - (1 - s) ^ S n) s (INR (S n) * (1 - s) ^ n).
Proof.
  replace (INR (S n) * (1 - s) ^ n) with (- ((INR (S n) * (1 - s) ^ pred (S n)) * (0 - 1))) by (simpl pred; ring).
  apply derivable_pt_lim_opp.
  apply (derivable_pt_lim_comp (fun s => 1 - s) (fun x => x ^ S n)).
  - apply derivable_pt_lim_minus; [apply derivable_pt_lim_const | apply derivable_pt_lim_id].
  - apply derivable_pt_lim_pow.
Qed.

Lemma integral_power n x : 0 <= x -> INR (S n) * integral (power_function n) 0 x = 1 - (1 - x) ^ S n.
Proof.
  intros Hx. set (F := fun s => - (1 - s) ^ S n).
  assert (HF : derivable F) by (intros s; exists (INR (S n) * (1 - s) ^ n); apply power_derivative).
  assert (E : forall s, derive F HF s = INR (S n) * power_function n s).
  { intros s. apply derive_pt_eq_0, power_derivative. }
  assert (Hc : continuity (derive F HF)).
  { intros s. apply (continuity_pt_locally_ext (fun s => INR (S n) * power_function n s) _ 1 s); [lra | |].
    - intros y _. symmetry. apply E.
    - apply continuity_pt_scal, value_continuous. }
  set (f' := {| value := derive F HF; value_continuous := Hc |}).
  pose proof (FTC_Riemann (mkC1 Hc) (integrable f' 0 x)) as FTC. simpl in FTC.
  transitivity (integral f' 0 x).
  - transitivity (integral (plus_scaled (constant_function 0) (INR (S n)) (power_function n)) 0 x).
    + rewrite integral_plus_scaled, integral_constant. ring.
    + apply integral_ext; [exact Hx |]. intros y _. cbn [value f' plus_scaled constant_function].
      rewrite E. unfold fct_cte. ring.
  - etransitivity; [exact FTC |]. unfold F. rewrite Rminus_0_r, pow1. ring.
Qed.

(** ** Survival functions *)

Definition clamp (x : R) : R := Rmax 0 (Rmin 1 x).

Lemma clamp_continuous : continuity clamp.
Proof.
  assert (Hlip : forall x y, Rabs (clamp x - clamp y) <= Rabs (x - y)).
  { intros x y. unfold clamp, Rmax, Rmin.
    destruct (Rle_dec 1 x), (Rle_dec 1 y);
      repeat match goal with |- context [Rle_dec ?a ?b] => destruct (Rle_dec a b) end;
      unfold Rabs; repeat match goal with |- context [Rcase_abs ?a] => destruct (Rcase_abs a) end; lra. }
  intros x eps Heps. exists eps. split; [exact Heps |]. intros y [_ Hy]. simpl in *. unfold R_dist in *.
  eapply Rle_lt_trans; [apply Hlip | exact Hy].
Qed.

(** P(E > s) for E uniform on (l, h]. Where l = h it means nothing; such an interval has probability zero in the
    block race. *)
Definition survives (interval : R * R) (s : R) : R := clamp ((snd interval - s) / (snd interval - fst interval)).

Program Definition survival (interval : R * R) : continuous_function := {| value := survives interval |}.
Next Obligation.
  apply (continuity_comp (fun s => (r0 - s) * / (r0 - r)) clamp); [| apply clamp_continuous].
  apply derivable_continuous. intros s. apply derivable_pt_mult; [| apply derivable_pt_const].
  apply derivable_pt_minus; [apply derivable_pt_const | apply derivable_pt_id].
Qed.

(** What is left of the interval above [s]. *)
Lemma survives_share l h s : l <= h -> (h - l) * survives (l, h) s = Rmax h s - Rmax l s.
Proof.
  intros Hlh. unfold survives. cbn [fst snd].
  destruct (Req_dec l h) as [<- | Hne]; [ring |].
  assert (Hw : 0 < h - l) by lra. set (x := (h - s) / (h - l)).
  assert (Hx : (h - l) * x = h - s) by (unfold x; field; lra).
  unfold clamp. rewrite <- RmaxRmult by lra. rewrite Rmult_0_r.
  replace ((h - l) * Rmin 1 x) with (Rmin (h - l) (h - s)).
  - unfold Rmin. destruct (Rle_dec (h - l) (h - s)); unfold Rmax;
      repeat match goal with |- context [Rle_dec ?a ?b] => destruct (Rle_dec a b) end; lra.
  - rewrite <- Hx. rewrite <- (Rmult_1_r (h - l)) at 1. unfold Rmin.
    destruct (Rle_dec ((h - l) * 1) ((h - l) * x)) as [H | H], (Rle_dec 1 x) as [H' | H']; try reflexivity; exfalso.
    + apply H'. now apply Rmult_le_reg_l in H.
    + apply H. apply Rmult_le_compat_l; lra.
Qed.

(** All of the others survive. *)
Definition all_survive (intervals : list (R * R)) : continuous_function :=
  fold_right (fun i f => times (survival i) f) (constant_function 1) intervals.

Lemma all_survive_value intervals s : all_survive intervals s = product (map (fun i => survives i s) intervals).
Proof. induction intervals as [| i l IH]; [reflexivity |]. simpl. rewrite IH. now rewrite product_cons. Qed.

(** ** The law of the smallest *)

(** For each of [intervals] the mean of the others' survival over it, where [before] are others as well. *)
Fixpoint smallest_among (before intervals : list (R * R)) : list R :=
  match intervals with
  | [] => []
  | i :: after =>
      integral (all_survive (before ++ after)) (fst i) (snd i) / (snd i - fst i) :: smallest_among (before ++ [i]) after
  end.

(** [Chance.smallest_uniform]: the probability of each to be the smallest. *)
Definition smallest_uniform (intervals : list (R * R)) : list R := smallest_among [] intervals.
