(** * Sums, means and models over the reals *)

From Coq Require Import List Arith Bool Reals Lra Lia.
From SpectrVerify Require Import Laws.
Import ListNotations.
Open Scope R_scope.

#[export] Instance R_number : Number R := {
  zero := 0;
  one := 1;
  add := Rplus;
  sub := Rminus;
  mul := Rmult;
  div := Rdiv;
  leb x y := if Rle_dec x y then true else false
}.

(* [simpl] leaves sums and means as they are. *)
Arguments sum : simpl never.
Arguments product : simpl never.
Arguments mean : simpl never.
Arguments bind : simpl never.
Arguments ret : simpl never.

(** Show the reals' own operations in place of those of [Number]. *)
Ltac reals := cbn [zero one add sub mul div leb R_number] in *.

(** ** Numbers *)

Lemma leb_true (x y : R) : leb x y = true <-> x <= y.
Proof. reals. destruct (Rle_dec x y); split; intros; auto; discriminate. Qed.

Lemma leb_false (x y : R) : leb x y = false <-> y < x.
Proof. reals. destruct (Rle_dec x y); split; intros; auto; try discriminate; lra. Qed.

Lemma minimum_spec (x y : R) : (x <= y /\ minimum x y = x) \/ (y < x /\ minimum x y = y).
Proof. unfold minimum. reals. destruct (Rle_dec x y); [left | right]; split; lra. Qed.

Lemma maximum_spec (x y : R) : (x <= y /\ maximum x y = y) \/ (y < x /\ maximum x y = x).
Proof. unfold maximum. reals. destruct (Rle_dec x y); [left | right]; split; lra. Qed.

Lemma positive_spec (x : R) : (0 < x /\ positive x = true) \/ (x <= 0 /\ positive x = false).
Proof. unfold positive. reals. destruct (Rle_dec x 0); [right | left]; split; simpl; auto; lra. Qed.

Lemma ratio_spec (x y : R) : (0 < x /\ ratio x y = x / y) \/ (x <= 0 /\ ratio x y = 0).
Proof. unfold ratio. destruct (positive_spec x) as [[H ->] | [H ->]]; auto. Qed.

(** ** Sums *)

Section Sums.
  Context {A : Type}.
  Implicit Types (l : list A) (f g : A -> R).

  Lemma sum_nil f : sum [] f = 0.
  Proof. reflexivity. Qed.

  Lemma sum_cons a l f : sum (a :: l) f = f a + sum l f.
  Proof. reflexivity. Qed.

  Lemma sum_app l l' f : sum (l ++ l') f = sum l f + sum l' f.
  Proof. induction l as [| a l IH]; simpl app; rewrite ?sum_nil, ?sum_cons, ?IH; lra. Qed.

  Lemma sum_ext l f g : (forall a, In a l -> f a = g a) -> sum l f = sum l g.
  Proof.
    induction l as [| a l IH]; intros H; [reflexivity |].
    rewrite !sum_cons. f_equal; [apply H; now left | apply IH; intros b Hb; apply H; now right].
  Qed.

  Lemma sum_plus l f g : sum l (fun a => f a + g a) = sum l f + sum l g.
  Proof. induction l as [| a l IH]; rewrite ?sum_nil, ?sum_cons, ?IH; lra. Qed.

  Lemma sum_scale l f (k : R) : sum l (fun a => k * f a) = k * sum l f.
  Proof. induction l as [| a l IH]; rewrite ?sum_nil, ?sum_cons, ?IH; lra. Qed.

  Lemma sum_scale_r l f (k : R) : sum l (fun a => f a * k) = sum l f * k.
  Proof. induction l as [| a l IH]; rewrite ?sum_nil, ?sum_cons, ?IH; lra. Qed.

  Lemma sum_minus l f g : sum l (fun a => f a - g a) = sum l f - sum l g.
  Proof. induction l as [| a l IH]; rewrite ?sum_nil, ?sum_cons, ?IH; lra. Qed.

  Lemma sum_zero l : sum l (fun _ => 0) = 0.
  Proof. induction l as [| a l IH]; rewrite ?sum_nil, ?sum_cons, ?IH; lra. Qed.

  Lemma sum_nonneg l f : (forall a, In a l -> 0 <= f a) -> 0 <= sum l f.
  Proof.
    induction l as [| a l IH]; intros H; rewrite ?sum_nil, ?sum_cons; [lra |].
    assert (0 <= f a) by (apply H; now left).
    assert (0 <= sum l f) by (apply IH; intros b Hb; apply H; now right). lra.
  Qed.

  (** A sum of numbers >= 0 is at least each of them. *)
  Lemma sum_member l f a : (forall b, In b l -> 0 <= f b) -> In a l -> f a <= sum l f.
  Proof.
    induction l as [| b l IH]; intros H Ha; [easy |]. rewrite sum_cons.
    assert (0 <= f b) by (apply H; now left).
    assert (0 <= sum l f) by (apply sum_nonneg; intros c Hc; apply H; now right).
    destruct Ha as [-> | Ha]; [lra |].
    enough (f a <= sum l f) by lra. apply IH; auto. intros c Hc. apply H. now right.
  Qed.

  (** A sum in which a single member counts. *)
  Lemma sum_single l f a : NoDup l -> In a l -> (forall b, In b l -> b <> a -> f b = 0) -> sum l f = f a.
  Proof.
    induction l as [| b l IH]; intros Hl Ha H; [easy |].
    rewrite sum_cons. inversion Hl as [| ? ? Hb Hl']; subst.
    destruct Ha as [-> | Ha].
    - rewrite (sum_ext l f (fun _ => 0)), sum_zero; [lra |].
      intros c Hc. apply H; [now right | congruence].
    - rewrite (H b), IH; auto; [lra | | now left | congruence]. intros c Hc. apply H. now right.
  Qed.
End Sums.

Lemma sum_map {A B} (h : A -> B) (l : list A) (f : B -> R) : sum (map h l) f = sum l (fun a => f (h a)).
Proof. induction l as [| a l IH]; simpl map; rewrite ?sum_nil, ?sum_cons, ?IH; reflexivity. Qed.

Lemma sum_swap {A B} (l : list A) (m : list B) (f : A -> B -> R) :
  sum l (fun a => sum m (f a)) = sum m (fun b => sum l (fun a => f a b)).
Proof.
  induction l as [| a l IH]; rewrite ?sum_nil.
  - symmetry. apply sum_zero.
  - rewrite sum_cons, IH, <- sum_plus. reflexivity.
Qed.

Lemma product_cons (a : R) l : product (a :: l) = a * product l.
Proof. reflexivity. Qed.

Lemma product_app (l l' : list R) : product (l ++ l') = product l * product l'.
Proof.
  induction l as [| a l IH]; cbn [app]; rewrite ?product_cons, ?IH; [| ring].
  unfold product at 2. simpl. reals. ring.
Qed.

(** ** Means *)

Section Means.
  Context {A B : Type}.
  Implicit Types (d : law R A) (f g : A -> R).

  Lemma mean_ret (a : A) f : mean (ret a) f = f a.
  Proof. unfold mean, ret. rewrite sum_cons, sum_nil. simpl. reals. lra. Qed.

  Lemma mean_cons w a d f : mean ((w, a) :: d) f = w * f a + mean d f.
  Proof. reflexivity. Qed.

  Lemma mean_ext d f g : (forall a, f a = g a) -> mean d f = mean d g.
  Proof. intros H. apply sum_ext. intros. now rewrite H. Qed.

  Lemma mean_bind d (k : A -> law R B) (f : B -> R) : mean (bind d k) f = mean d (fun a => mean (k a) f).
  Proof.
    unfold mean, bind. induction d as [| [w a] d IH]; [reflexivity |].
    cbn [flat_map]. rewrite sum_app, sum_cons, IH, sum_map. f_equal.
    unfold mean. cbn [fst snd]. reals. rewrite <- sum_scale. apply sum_ext. intros. ring.
  Qed.

  Lemma mean_plus d f g : mean d (fun a => f a + g a) = mean d f + mean d g.
  Proof. unfold mean. rewrite <- sum_plus. apply sum_ext. intros. reals. ring. Qed.

  Lemma mean_minus d f g : mean d (fun a => f a - g a) = mean d f - mean d g.
  Proof. unfold mean. rewrite <- sum_minus. apply sum_ext. intros. reals. ring. Qed.

  Lemma mean_scale d f (k : R) : mean d (fun a => k * f a) = k * mean d f.
  Proof. unfold mean. rewrite <- sum_scale. apply sum_ext. intros. reals. ring. Qed.

  Lemma mean_scale_r d f (k : R) : mean d (fun a => f a * k) = mean d f * k.
  Proof. unfold mean. rewrite <- sum_scale_r. apply sum_ext. intros. reals. ring. Qed.

  Lemma mean_sum d (l : list B) (f : B -> A -> R) :
    mean d (fun a => sum l (fun b => f b a)) = sum l (fun b => mean d (f b)).
  Proof.
    unfold mean. rewrite <- sum_swap. apply sum_ext. intros. reals.
    rewrite <- sum_scale. reflexivity.
  Qed.

  Lemma mean_zero d : mean d (fun _ => 0) = 0.
  Proof. unfold mean. rewrite (sum_ext _ _ (fun _ => 0)); [apply sum_zero | intros; reals; ring]. Qed.

  Lemma mean_constant d (k : R) : mean d (fun _ => 1) = 1 -> mean d (fun _ => k) = k.
  Proof.
    intros H. rewrite (mean_ext d (fun _ => k) (fun _ => k * 1)) by (intros; ring).
    rewrite mean_scale, H. ring.
  Qed.

  Lemma mean_categorical (l : list A) (w : A -> R) f :
    mean (categorical l w) f = sum l (fun a => w a / sum l w * f a).
  Proof. unfold mean, categorical. rewrite sum_map. reflexivity. Qed.

  (** The weights need not sum to 1, but then the sum must not be 0. *)
  Lemma categorical_total (l : list A) (w : A -> R) f :
    sum l w <> 0 -> sum l w * mean (categorical l w) f = sum l (fun a => w a * f a).
  Proof.
    intros H. rewrite mean_categorical, <- sum_scale. apply sum_ext. intros. now field.
  Qed.

  Lemma categorical_law (l : list A) (w : A -> R) f :
    sum l w = 1 -> mean (categorical l w) f = sum l (fun a => w a * f a).
  Proof. intros H. rewrite <- categorical_total, H by lra. lra. Qed.
End Means.

Lemma mean_choose {A} (ws : list R) (l : list A) (f : A -> R) :
  sum (combine ws l) fst = 1 -> mean (choose ws l) f = sum (combine ws l) (fun wa => fst wa * f (snd wa)).
Proof.
  intros H. unfold choose. rewrite mean_bind, categorical_law by exact H.
  apply sum_ext. intros. now rewrite mean_ret.
Qed.

Lemma mean_swap {A B} (d : law R A) (e : law R B) (f : A -> B -> R) :
  mean d (fun a => mean e (f a)) = mean e (fun b => mean d (fun a => f a b)).
Proof.
  induction d as [| [w a] d IH].
  - symmetry. rewrite (mean_ext e _ (fun _ => 0 * 1)) by (intros; unfold mean; rewrite sum_nil; reals; ring).
    rewrite mean_scale. unfold mean. rewrite sum_nil. reals. ring.
  - rewrite mean_cons, IH, <- mean_scale, <- mean_plus. apply mean_ext. intros b. now rewrite mean_cons.
Qed.

(** ** Models *)

(** What the theorems assume of a model: after every text its next-token probabilities are >= 0 and sum to 1. *)
Definition is_model (V : nat) (m : model R) : Prop :=
  forall v, (forall c, 0 <= m v c) /\ sum (vocabulary V) (m v) = 1.

Section Models.
  Variables (V : nat) (m : model R).
  Hypothesis Hm : is_model V m.

  Lemma next_nonneg v c : 0 <= m v c.
  Proof. apply Hm. Qed.

  Lemma next_total v : sum (vocabulary V) (m v) = 1.
  Proof. apply Hm. Qed.

  Lemma mean_next v f : mean (categorical (vocabulary V) (m v)) f = sum (vocabulary V) (fun c => m v c * f c).
  Proof. apply categorical_law, next_total. Qed.

  Lemma text_prob_nonneg v : 0 <= text_prob m v.
  Proof. induction v as [| c v IH]; simpl; reals; [lra | apply Rmult_le_pos; auto using next_nonneg]. Qed.

  Lemma mean_follow_step n v f :
    mean (follow V m (S n) v) f = sum (vocabulary V) (fun c => m v c * mean (follow V m n (c :: v)) f).
  Proof. cbn [follow]. now rewrite mean_bind, mean_next. Qed.

  Lemma mean_draft_step n v f :
    mean (draft V m (S n) v) f
    = sum (vocabulary V) (fun c => m v c * mean (draft V m n (c :: v)) (fun x => f (c :: x))).
  Proof.
    cbn [draft]. rewrite mean_bind, mean_next. apply sum_ext. intros c _. f_equal.
    rewrite mean_bind. apply mean_ext. intros x. apply mean_ret.
  Qed.

  Lemma follow_total n v : mean (follow V m n v) (fun _ => 1) = 1.
  Proof.
    revert v. induction n as [| n IH]; intros v.
    - cbn [follow draft]. now rewrite mean_ret.
    - rewrite mean_follow_step. rewrite (sum_ext _ _ (m v)). 1: apply next_total.
      intros. rewrite IH. ring.
  Qed.

  Lemma draft_total n v : mean (draft V m n v) (fun _ => 1) = 1.
  Proof.
    revert v. induction n as [| n IH]; intros v.
    - cbn [follow draft]. now rewrite mean_ret.
    - rewrite mean_draft_step. rewrite (sum_ext _ _ (m v)). 1: apply next_total.
      intros. rewrite IH. ring.
  Qed.

  (** Only texts of [n] more tokens are written, and only drafts of [n] tokens are drawn. *)
  Lemma mean_follow_ext n v f g :
    (forall s, length s = n -> f (s ++ v) = g (s ++ v)) -> mean (follow V m n v) f = mean (follow V m n v) g.
  Proof.
    revert v. induction n as [| n IH]; intros v H.
    - cbn [follow draft]. rewrite !mean_ret. now apply (H []).
    - rewrite !mean_follow_step. apply sum_ext. intros c _. f_equal. apply IH. intros s Hs.
      specialize (H (s ++ [c])). rewrite <- app_assoc in H. apply H. rewrite app_length. simpl. lia.
  Qed.
End Models.

Lemma text_eqb_true y x : text_eqb y x = true <-> x = y.
Proof. unfold text_eqb. destruct (list_eq_dec Nat.eq_dec x y); split; congruence. Qed.

Lemma text_eqb_false y x : text_eqb y x = false <-> x <> y.
Proof. unfold text_eqb. destruct (list_eq_dec Nat.eq_dec x y); split; congruence. Qed.

(** ** What losslessness compares with

    Plain text of the target: every text has the product of its tokens' probabilities. *)

Definition vocabulary_text (V : nat) (v : text) : Prop := Forall (fun c => (c < V)%nat) v.

Section Autoregression.
  Variables (V : nat) (q : model R).
  Hypothesis Hq : is_model V q.

  Lemma follow_from n s v : vocabulary_text V s -> length s = n ->
    text_prob q v * probability (follow V q n v) (text_eqb (s ++ v)) = text_prob q (s ++ v).
  Proof.
    unfold probability. revert s v. induction n as [| n IH]; intros s v Hs Hn.
    - destruct s; [| easy]. simpl app. cbn [follow]. rewrite mean_ret.
      rewrite (proj2 (text_eqb_true v v)) by reflexivity. reals. ring.
    - (* the oldest token [c] of [s] comes first, and no other one leads to the text *)
      destruct s as [| c s _] using rev_ind; [easy |].
      rewrite app_length in Hn. simpl in Hn. apply Forall_app in Hs as [Hs Hc].
      inversion Hc as [| ? ? Hc' _]; subst.
      rewrite mean_follow_step, (sum_single _ _ c); [| apply seq_NoDup | apply in_seq; lia | | exact Hq].
      + rewrite <- app_assoc. simpl app. rewrite <- (IH s (c :: v)) by (auto; lia). simpl. reals. ring.
      + intros b _ Hb. rewrite (mean_follow_ext _ _ Hq _ _ _ (fun _ => 0)).
        * unfold mean. rewrite (sum_ext _ _ (fun _ => 0)), sum_zero by (intros; reals; ring). ring.
        * intros s' Hs'. rewrite (proj2 (text_eqb_false _ _)); [reflexivity |].
          rewrite <- app_assoc. simpl. intros E. apply Hb.
          assert (E' : s' ++ [b] = s ++ [c]).
          { apply (app_inv_tail v). rewrite <- !app_assoc. exact E. }
          apply app_inj_tail in E' as [_ E']. exact E'.
  Qed.

  Theorem autoregression y : vocabulary_text V y ->
    probability (follow V q (length y) []) (text_eqb y) = text_prob q y.
  Proof.
    intros Hy. rewrite <- (app_nil_r y) at 2 3. rewrite <- follow_from with (n := length y) by auto.
    simpl. reals. ring.
  Qed.
End Autoregression.

(** ** Losslessness, stateless class: the text of a round, completed to [L + 1] tokens by the plain target, has the
    law of the target's own text. For every text [y]: the two laws give it one probability. *)

Definition lossless (V L : nat) (q : model R) (d : law R text) : Prop :=
  forall y, vocabulary_text V y -> length y = S L -> probability d (text_eqb y) = text_prob q y.

(** It is enough, and in fact the same, that every function of the text has one mean under both. *)
Lemma lossless_by_means V L q d : is_model V q ->
  (forall f, mean d f = mean (follow V q (S L) []) f) -> lossless V L q d.
Proof.
  intros Hq H y Hy Hl. unfold probability. rewrite H, <- Hl. now apply autoregression.
Qed.
